use super::*;

fn pattern(text: &str) -> Pattern {
    text.parse().expect(text)
}

fn to(text: &str) -> Destination {
    text.parse().expect(text)
}

fn allow(list: &[&str]) -> Destinations {
    Destinations(list.iter().map(|text| pattern(text)).collect())
}

#[test]
fn the_first_rule_that_matches_counts() {
    let rules = toml::from_str::<std::collections::BTreeMap<String, Vec<Rule>>>(
        r#"
        rules = [
            { to = "a.example.org:443", via = "direct" },
            { to = "*.example.org", via = "path:lte" },
            { to = "10.0.0.0/8", via = "refused" },
            { to = "[2001:db8::/32]:1-1023", via = "refused" },
            { to = "*:25", via = "refused" },
        ]
        "#,
    );
    let rules = &rules.expect("rules")["rules"];
    let lte = || Via::Path("lte".into());
    for (destination, expected) in [
        ("a.example.org:443", Via::Direct),
        ("A.Example.ORG.:443", Via::Direct),
        ("a.example.org:80", lte()),
        ("example.org:80", Via::Tunnel),
        ("notexample.org:80", Via::Tunnel),
        ("10.255.0.1:80", Via::Refused),
        ("11.0.0.1:80", Via::Tunnel),
        ("[::ffff:10.0.0.1]:80", Via::Refused),
        ("[2001:db8::1]:1023", Via::Refused),
        ("[2001:db8::1]:1024", Via::Tunnel),
        ("[2001:db8::1]:25", Via::Refused),
        ("mail.example.com:25", Via::Refused),
    ] {
        assert_eq!(via(rules, &to(destination)), expected, "{destination}");
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
    assert!(Via::try_from("path:".to_owned()).is_err());
    assert!(Via::try_from("Direct".to_owned()).is_err());
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
    assert!(!list.allows(&to("8.8.8.8:80"), [8, 8, 8, 8].into()));
}

/// Whether the list allows the address, requested as such.
fn allows(list: &[&str], address: &str) -> bool {
    let address: IpAddr = address.parse().expect(address);
    let requested = Destination {
        host: address.into(),
        port: 80,
    };
    let list = allow(list);
    let allowed = list.allows(&requested, address);
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
        ("www.example.org", true, true, true),
        ("WWW.example.org.:80", true, true, true),
        ("www.example.org:81", false, false, false),
        ("example.org", false, false, false),
        ("10.0.0.0/8", true, true, false),
        ("8.8.8.8:80", true, false, true),
        ("8.8.8.8:81", false, false, false),
    ] {
        let list_ = allow(&[list]);
        assert_eq!(list_.may_allow(&name), may, "{list}");
        assert_eq!(list_.allows(&name, private), to_private, "{list}");
        assert_eq!(list_.allows(&name, public), to_public, "{list}");
    }
}
