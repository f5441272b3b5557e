fn main(){ let a: Vec<String>=std::env::args().skip(1).collect();
 let o: Vec<(String,String)>=a[2..].iter().map(|s|{let (k,v)=s.split_once('=').unwrap();(k.to_string(),v.to_string())}).collect();
 let sc=anabranch_scenario::Scenario::load(std::path::Path::new(&a[0]), &o).unwrap_or_else(|e|panic!("{e}")).with_algorithm(&a[1]).unwrap();
 let mut acc: std::collections::BTreeMap<String,Vec<f64>>=Default::default();
 for seed in 1..=8u64 { let r=anabranch_sim::Simulation::new(&sc,seed).finish();
  for (i,f) in sc.flows.iter().enumerate(){ let v:Vec<f64>=r.flows.flow.iter().zip(&r.flows.goodput_mbps).filter(|(x,_)|**x as usize==i).map(|(_,g)|*g).collect(); acc.entry(f.name.clone()).or_default().push(v.iter().sum::<f64>()/v.len() as f64);
   for p in 0..f.paths.len(){ let k:Vec<usize>=(0..r.paths.flow.len()).filter(|&k|r.paths.flow[k] as usize==i&&r.paths.path[k] as usize==p).collect(); let n=k.len() as f64;
    let m=|v:&Vec<f64>|k.iter().map(|&k|v[k]).sum::<f64>()/n; let mu=|v:&Vec<u64>|k.iter().map(|&k|v[k] as f64).sum::<f64>()/n;
    acc.entry(format!("{}.{p}.mbps",f.name)).or_default().push(m(&r.paths.goodput_mbps)); acc.entry(format!("{}.{p}.w",f.name)).or_default().push(m(&r.paths.window_packets)); acc.entry(format!("{}.{p}.rtt",f.name)).or_default().push(m(&r.paths.rtt_ms)); acc.entry(format!("{}.{p}.loss",f.name)).or_default().push(m(&r.paths.loss_probability)); acc.entry(format!("{}.{p}.rto",f.name)).or_default().push(mu(&r.paths.timeouts)); acc.entry(format!("{}.{p}.events",f.name)).or_default().push(mu(&r.paths.loss_events));} }
  for (i,l) in sc.links.iter().enumerate(){ acc.entry(format!("link.{}.p",l.name)).or_default().push(r.links.loss_probability[i]); acc.entry(format!("link.{}.util",l.name)).or_default().push(r.links.utilization[i]); acc.entry(format!("link.{}.q",l.name)).or_default().push(r.links.queue_packets[i]);} }
 for (k,v) in acc { let m=v.iter().sum::<f64>()/v.len() as f64; let s=(v.iter().map(|x|(x-m).powi(2)).sum::<f64>()/(v.len()-1) as f64).sqrt(); println!("{k:20} {m:10.4} ± {s:.4}"); } }
