//! Rules and allow-lists: which destinations and addresses they match.

use std::net::IpAddr;

use anabranch_gateway::config::destination::{
    Action, Destinations, Pattern, Rule, Special, action, is_direct,
};
use anabranch_gateway::wire::Destination;

fn pattern(text: &str) -> Pattern {
    text.parse().expect(text)
}

fn to(text: &str) -> Destination {
    text.parse().expect(text)
}

fn allow(list: &[&str]) -> Destinations {
    Destinations(list.iter().map(|text| text.parse().expect(text)).collect())
}

/// A host with the public address 8.8.4.4 and the private address 10.9.9.9.
fn own() -> Special {
    Special::with_own([[8, 8, 4, 4].into(), [10, 9, 9, 9].into()])
}

#[test]
fn the_first_rule_that_matches_counts() {
    let rules = toml::from_str::<std::collections::BTreeMap<String, Vec<Rule>>>(
        r#"
        rules = [
            { to = "a.example.org:443", via = "direct" },
            { to = "*.example.org", via = "path:lte" },
            { to = "10.0.0.0/8", via = "refused" },
            { to = "::ffff:11.1.0.0/112", via = "refused" },
            { to = "[2001:db8::/32]:1-1023", via = "refused" },
            { to = "*:25", via = "refused" },
            { to = "test.lab:*", via = "direct" },
        ]
        "#,
    );
    let rules = &rules.expect("rules")["rules"];
    let lte = || Action::Path("lte".into());
    for (destination, expected) in [
        ("a.example.org:443", Action::Direct),
        ("A.Example.ORG.:443", Action::Direct),
        ("a.example.org:80", lte()),
        ("example.org:80", Action::Tunnel),
        ("notexample.org:80", Action::Tunnel),
        ("10.255.0.1:80", Action::Refused),
        ("11.0.0.1:80", Action::Tunnel),
        ("11.1.0.1:80", Action::Refused),
        ("[::ffff:10.0.0.1]:80", Action::Refused),
        ("[2001:db8::1]:1023", Action::Refused),
        ("[2001:db8::1]:1024", Action::Tunnel),
        ("[2001:db8::1]:25", Action::Refused),
        ("mail.example.com:25", Action::Refused),
        ("test.lab:9", Action::Direct),
    ] {
        assert_eq!(action(rules, &to(destination)), expected, "{destination}");
    }
}

#[test]
fn faults_of_patterns_are_reported() {
    for text in [
        "",
        "*x",
        "*.",
        "a b",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "host:0",
        "host:2-1",
        "host:70000",
        "host:",
        "host:a",
        "[::1",
        "[::1]x",
        "münchen.example",
        "*.*.org",
        "a..b",
        "-:1-2-3",
    ] {
        assert!(text.parse::<Pattern>().is_err(), "{text:?}");
    }
    assert!(Action::try_from("path:".to_owned()).is_err());
    assert!(Action::try_from("Direct".to_owned()).is_err());
    for text in [
        "::1",
        "[::1]",
        "[::1]:80",
        "127.0.0.1:80",
        "a_b",
        "*",
        "*:1-2",
        "::/0",
    ] {
        assert_eq!(pattern(text).to_string(), text);
    }
}

#[test]
fn an_empty_list_allows_nothing() {
    let list = Destinations::default();
    assert!(!list.may_allow(&to("example.org:80")));
    assert!(!list.allows(&to("8.8.8.8:80"), [8, 8, 8, 8].into(), &own()));
}

/// Whether the list allows the address, requested as such.
fn allows(list: &[&str], address: &str) -> bool {
    let address: IpAddr = address.parse().expect(address);
    let requested = Destination {
        host: address.into(),
        port: 80,
    };
    let list = allow(list);
    let allowed = list.allows(&requested, address, &own());
    assert!(!allowed || list.may_allow(&requested));
    allowed
}

#[test]
fn addresses_that_are_not_public_are_allowed_by_networks_inside_their_range_only() {
    let special = "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.0.1 169.254.169.254 \
        172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.168.1.1 198.18.0.1 224.0.0.1 \
        239.255.255.250 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::10.0.0.1 \
        64:ff9b::10.0.0.1 64:ff9b::8.8.8.8 2002:a00:1:: 2002:808:808:: 2001::1 fc00::1 fd12::1 \
        fe80::1 fec0::1 ff02::1";
    for address in special.split_whitespace() {
        for list in [
            "*",
            "0.0.0.0/0",
            "::/0",
            "8.0.0.0/5",
            "f000::/4",
            "*:80",
            "2000::/3",
        ] {
            assert!(!allows(&[list], address), "{list} {address}");
        }
    }
    for address in ["8.8.8.8", "172.32.0.1", "2600::1", "::ffff:8.8.8.8"] {
        assert!(allows(&["*"], address), "{address}");
        assert!(allows(&["0.0.0.0/0", "::/0"], address), "{address}");
    }
    assert!(allows(&["10.0.0.0/8"], "10.0.0.1"));
    assert!(allows(&["10.0.0.0/8"], "::ffff:10.0.0.1"));
    assert!(allows(&["10.0.0.0/16:80"], "10.0.0.1"));
    assert!(!allows(&["10.0.0.0/16:81"], "10.0.0.1"));
    assert!(!allows(&["10.0.0.0/8"], "64:ff9b::a00:1"));
    // NAT64 and 6to4, where they are named: not to IPv4 addresses that are not public.
    assert!(allows(&["64:ff9b::/96"], "64:ff9b::8.8.8.8"));
    assert!(!allows(&["64:ff9b::/96"], "64:ff9b::10.0.0.1"));
    assert!(!allows(&["2002::/16"], "2002:a00:1::"));
}

#[test]
fn a_name_is_allowed_by_what_it_resolves_to() {
    let private: IpAddr = [10, 0, 0, 1].into();
    let public: IpAddr = [8, 8, 8, 8].into();
    let name = to("www.example.org:80");
    for (list, may, to_private, to_public) in [
        ("*", true, false, true),
        ("*.example.org", true, false, true),
        ("*.example.com", false, false, false),
        ("www.example.org", true, false, true),
        ("WWW.example.org.:80", true, false, true),
        ("www.example.org:*", true, false, true),
        ("www.example.org:81", false, false, false),
        ("example.org", false, false, false),
        ("10.0.0.0/8", true, true, false),
        ("8.8.8.8:80", true, false, true),
        ("8.8.8.8:81", false, false, false),
    ] {
        let list_ = allow(&[list]);
        assert_eq!(list_.may_allow(&name), may, "{list}");
        assert_eq!(list_.allows(&name, private, &own()), to_private, "{list}");
        assert_eq!(list_.allows(&name, public, &own()), to_public, "{list}");
    }
}

#[test]
fn an_entry_with_private_allows_every_address_of_its_destinations() {
    let list = toml::from_str::<std::collections::BTreeMap<String, Destinations>>(
        r#"allow = [{ to = "*.example.org:80", private = true }, { to = "10.0.0.0/8" }]"#,
    );
    let list = &list.expect("a list")["allow"];
    for (host, address, expected) in [
        ("www.example.org", "127.0.0.1", true),
        ("www.example.org", "8.8.4.4", true),
        ("www.example.org", "10.9.9.9", true),
        ("www.example.org", "8.8.8.8", true),
        ("example.org", "127.0.0.1", false),
        ("example.org", "10.0.0.1", true),
        ("example.org", "10.9.9.9", false),
    ] {
        let requested = to(&format!("{host}:80"));
        let address: IpAddr = address.parse().expect(address);
        let allowed = list.allows(&requested, address, &own());
        assert_eq!(allowed, expected, "{host} {address}");
        assert!(list.may_allow(&requested) || !allowed);
    }
    assert!(!list.allows(&to("a.example.org:81"), [8, 8, 8, 8].into(), &own()));
    let fault = |entry: &str| {
        let list = toml::from_str::<std::collections::BTreeMap<String, Destinations>>(entry);
        list.expect_err(entry).to_string()
    };
    assert!(fault("allow = [{ to = 'a.org', privat = true }]").contains("unknown field `privat`"));
    assert!(fault("allow = [{ private = true }]").contains("missing field `to`"));
    assert!(fault("allow = [{ to = '10.0.0.1/8' }]").contains("no bits set beyond the prefix"));
    assert!(fault("allow = [7]").contains("a destination, or a table"));
}

#[test]
fn own_addresses_are_allowed_only_where_they_are_named() {
    for address in ["8.8.4.4", "10.9.9.9", "::ffff:8.8.4.4"] {
        for list in [
            "*",
            "0.0.0.0/0",
            "::/0",
            "8.0.0.0/8",
            "8.8.4.0/24",
            "10.0.0.0/8",
        ] {
            assert!(!allows(&[list], address), "{list} {address}");
        }
        assert!(allows(&["8.8.4.4", "10.9.9.9/32"], address), "{address}");
    }
    assert!(!allows(&["64:ff9b::/96"], "64:ff9b::8.8.4.4"));
    // Where the own addresses are unknown every address may be one.
    let unknown = Special::unknown();
    let requested = to("9.9.9.9:80");
    let allowed = |list: &[&str]| allow(list).allows(&requested, [9, 9, 9, 9].into(), &unknown);
    assert!(!allowed(&["*", "9.0.0.0/8"]) && allowed(&["9.9.9.9"]));
}

#[test]
fn the_rules_count_for_the_addresses_of_a_name_that_goes_directly() {
    let rules = |list: &[(&str, &str)]| -> Vec<Rule> {
        let rule = |(to, via): &(&str, &str)| Rule {
            to: pattern(to),
            via: Action::try_from((*via).to_owned()).expect(via),
        };
        list.iter().map(rule).collect()
    };
    let refused = [("10.0.0.0/8", "refused"), ("*", "direct")];
    let corp = [
        ("*.corp", "direct"),
        ("10.0.0.0/8", "direct"),
        ("127.1.0.0/16", "direct"),
    ];
    let tunnel = [("8.8.8.0/24:80", "tunnel"), ("*", "direct")];
    let below = [("a.corp", "refused"), ("0.0.0.0/0", "direct")];
    for (list, host, address, expected) in [
        (&refused[..], "a.corp", "10.1.1.1", false),
        (&refused, "a.corp", "8.8.8.8", true),
        (&refused, "a.corp", "127.0.0.1", false),
        (&refused, "a.corp", "8.8.4.4", false),
        (&refused, "10.1.1.1", "10.1.1.1", false),
        (&corp, "a.corp", "10.1.1.1", true),
        (&corp, "a.corp", "10.9.9.9", false),
        (&corp, "a.corp", "::ffff:10.1.1.1", true),
        (&corp, "a.corp", "192.168.1.1", false),
        (&corp, "a.corp", "127.0.0.1", false),
        (&corp, "a.corp", "127.1.0.1", true),
        (&corp, "10.1.1.1", "10.1.1.1", true),
        (&corp, "corp", "8.8.8.8", false),
        (&tunnel, "a.corp", "8.8.8.8", false),
        (&tunnel, "a.corp", "8.8.9.9", true),
        (&below, "a.corp", "9.9.9.9", false),
        (&below, "b.corp", "9.9.9.9", true),
        (&below, "b.corp", "10.1.1.1", false),
    ] {
        let requested = Destination {
            host: host.parse().expect(host),
            port: 80,
        };
        let address: IpAddr = address.parse().expect(address);
        let direct = is_direct(&rules(list), &requested, address, &own());
        assert_eq!(direct, expected, "{list:?} {host} {address}");
    }
}
