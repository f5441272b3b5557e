fn main(){ let mut pts=vec![]; for p in ["0.0001","0.0003","0.001","0.003","0.01"] {
 for extra in [vec![], vec![("tcp.recovery".to_string(),"\"newreno\"".to_string())]] {
 let mut o=vec![("links.L.loss.bernoulli.probability".to_string(), p.to_string())]; o.extend(extra.clone());
 let sc=anabranch_scenario::Scenario::load(std::path::Path::new("/tmp/ns/law.toml"), &o).unwrap();
 let r=anabranch_sim::Simulation::new(&sc,1).finish();
 let g: f64=r.flows.goodput_mbps.iter().sum::<f64>()/20.0; let tau=r.paths.rtt_ms.iter().sum::<f64>()/20.0*1e-3;
 let pf:f64=p.parse().unwrap(); let rate=g*1e6/8.0/1460.0; 
 println!("p {p} {} C {:.3} rtt {tau:.4} timeouts {} loss events/lost {:.3}", if extra.is_empty(){"sack"}else{"newreno"}, rate*tau*pf.sqrt(), r.flows.timeouts.iter().sum::<u64>(), r.paths.loss_events.iter().sum::<u64>() as f64/r.flows.lost_packets.iter().sum::<u64>() as f64);
 if extra.is_empty(){pts.push((pf.ln(),(rate*tau).ln()));} } }
 let n=pts.len() as f64; let (sx,sy)=pts.iter().fold((0.,0.),|a,b|(a.0+b.0,a.1+b.1)); let sxy:f64=pts.iter().map(|p|p.0*p.1).sum(); let sxx:f64=pts.iter().map(|p|p.0*p.0).sum();
 println!("slope {}", (n*sxy-sx*sy)/(n*sxx-sx*sx)); }
