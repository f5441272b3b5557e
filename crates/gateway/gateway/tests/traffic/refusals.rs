//! Requests that rules, allow-lists and limits refuse. Codes of SOCKS5: 2 not allowed, 4 host
//! unreachable, 5 connection refused.

use std::net::SocketAddr;

use anabranch_gateway::near::TunnelId;
use tokio::net::TcpStream;

use super::boundaries::own_address;
use super::harness::*;

#[test]
fn far_connects_to_nothing_that_is_not_allowed() {
    each_carrier(async |carrier| {
        let echo = echo().await;
        let port = echo.port();
        for (allow, name, code) in [
            ("allow = []", "127.0.0.1", 2),
            ("allow = [\"*\"]", "127.0.0.1", 2),
            // A name that resolves to this host: the address counts.
            ("allow = [\"*\"]", "localhost", 2),
            ("allow = [\"0.0.0.0/0\", \"::/0\"]", "localhost", 2),
            ("allow = [\"*\"]", "169.254.169.254", 2),
            ("allow = [\"*\"]", "::ffff:127.0.0.1", 2),
            ("allow = [\"127.0.0.1:1\"]", "127.0.0.1", 2),
            ("allow = [\"*\"]", "no-such-host.invalid", 4),
        ] {
            let pair = Pair::far_with(carrier, allow).await;
            let refused = pair.connect_name(name, port).await.err();
            assert_eq!(refused, Some(code), "{allow} {name}");
            assert_eq!(pair.near_counters.refused_by_far.value(), 1);
            let far = &pair.far_counters;
            let counted = far.refused_destination.value() + far.refused_unresolved.value();
            assert_eq!(counted, 1, "{allow} {name}");
            pair.close().await;
        }
        let pair =
            Pair::far_with(carrier, "allow = [{ to = \"localhost\", private = true }]").await;
        let mut named = pair
            .connect_name("localhost", port)
            .await
            .expect("it is named");
        exchange(&mut named, "named").await;
        assert_eq!(pair.connect(echo).await.err(), Some(2));
        pair.close().await;
    });
}

#[test]
fn the_reply_gives_the_cause() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let closed: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        assert_eq!(pair.connect(closed).await.err(), Some(5));
        assert_eq!(pair.far_counters.refused_unreachable.value(), 1);
        pair.close().await;
    });
}

#[test]
fn the_rules_of_near_count() {
    each_carrier(async |carrier| {
        let echo = echo().await;
        let other = super::harness::echo().await;
        let third = super::harness::echo().await;
        let rules = format!(
            "rules = [
                {{ to = \"{echo}\", via = \"direct\" }},
                {{ to = \"{other}\", via = \"path:a\" }},
                {{ to = \"127.0.0.1\", via = \"refused\" }},
            ]"
        );
        // Far allows the second one only: the first is reached without it.
        let far = format!("allow = [\"{other}\"]");
        let pair = Pair::with(
            carrier,
            Options {
                near: &rules,
                far: &far,
            },
        )
        .await;
        pair.echoes(echo, "direct").await;
        pair.echoes(other, "one path").await;
        assert_eq!(pair.connect(third).await.err(), Some(2));
        let counters = &pair.near_counters;
        assert_eq!(counters.relayed_direct.value(), 1);
        assert_eq!(counters.relayed_path.value(), 1);
        assert_eq!(counters.refused_rule.value(), 1);
        until("both tunnels", async || {
            let tunnels = pair.near.tunnels();
            let ways = tunnels.into_iter().map(|(id, _)| id);
            let of_streams = ways.filter(|id| !matches!(id, TunnelId::Datagrams(_)));
            of_streams.eq([TunnelId::All, TunnelId::Path("a".to_owned())])
        })
        .await;
        pair.close().await;
    });
}

#[test]
fn a_direct_connection_is_reset_and_ends_like_another() {
    each_carrier(async |carrier| {
        let near = "rules = [{ to = \"127.0.0.1\", via = \"direct\" }]";
        let pair = Pair::near_with(carrier, near).await;
        let (listener, _) = listen().await;
        let (mut client, server) = pair.ends(&listener).await;
        reset(&server);
        drop(server);
        assert!(is_reset(&mut client).await);
        pair.close().await;
    });
}

#[test]
fn a_client_has_a_limited_number_of_connections() {
    each_carrier(async |carrier| {
        let near = "limits.connections_per_client = 2";
        let pair = Pair::near_with(carrier, near).await;
        let echo = echo().await;
        let mut first = pair.connect(echo).await.expect("connected");
        let _second = pair.connect(echo).await.expect("connected");
        assert!(resets(pair.at("socks").await).await);
        assert_eq!(pair.near_counters.refused_limit.value(), 1);
        exchange(&mut first, "still").await;
        drop(first);
        until("it ends", async || pair.near.active() == 1).await;
        assert!(pair.connect(echo).await.is_ok());
        pair.close().await;
    });
}

#[test]
fn a_tunnel_has_a_limited_number_of_streams() {
    each_carrier(async |carrier| {
        let far = "limits.connections_per_client = 1";
        let pair = Pair::far_with(carrier, far).await;
        let echo = echo().await;
        let _first = pair.connect(echo).await.expect("connected");
        assert_eq!(pair.connect(echo).await.err(), Some(1));
        // Either far refuses the stream, or the carrier doesn't open it.
        let (near, far) = (&pair.near_counters, &pair.far_counters);
        let counted = near.refused_limit.value() + far.refused_limit.value();
        assert_eq!(counted, 1);
        pair.close().await;
    });
}

#[test]
fn only_its_clients_use_a_listener() {
    each_carrier(async |carrier| {
        let Some(own) = own_address() else {
            eprintln!("skipped: this host has loopback only");
            return;
        };
        for (clients, serves) in [("198.51.100.0/24", false), (&*format!("{own}/32"), true)] {
            let near = format!("[socks]\nlisten = \"0.0.0.0:0\"\nclients = [\"{clients}\"]");
            let pair = Pair::near_with(carrier, &near).await;
            let port = pair.at("socks").await.port();
            if serves {
                let mut socket = TcpStream::connect((own, port)).await.expect("connected");
                let to = echo().await;
                let request = request(&mut socket, 1, &[1, 127, 0, 0, 1], to.port());
                request.await.expect("connected");
            } else {
                assert!(resets((own, port).into()).await);
                assert_eq!(pair.near_counters.refused_client.value(), 1);
            }
            pair.close().await;
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_connection_that_was_not_redirected_is_reset() {
    each_carrier(async |carrier| {
        let near = "redirect.listen = \"127.0.0.1:0\"";
        let pair = Pair::near_with(carrier, near).await;
        assert!(resets(pair.at("redirect").await).await);
        reaches(&pair.near_counters.refused_malformed, 1).await;
        pair.close().await;
    });
}
