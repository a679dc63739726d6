use axum::http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

const NOW: i64 = 1_614_265_330;
const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn headers(list: &[(&str, &str)]) -> HeaderMap {
    let name = |name: &str| HeaderName::from_bytes(name.as_bytes()).unwrap();
    list.iter().map(|(key, value)| (name(key), HeaderValue::from_str(value).unwrap())).collect()
}

fn key(scheme: WebhookScheme, secret: &str) -> WebhookKey {
    WebhookKey::new(scheme, secret).unwrap()
}

fn check(
    scheme: WebhookScheme,
    secrets: &[&str],
    list: &[(&str, &str)],
    body: &[u8],
    now_s: i64,
) -> Result<Proof, SignatureFault> {
    let keys: Vec<WebhookKey> = secrets.iter().map(|secret| key(scheme, secret)).collect();
    verify(scheme, &keys, &WebhookKey::unknown(), &headers(list), body, now_s)
}

/// HMAC as in RFC 2104, computed from the hash function alone, independently of the tested code.
fn by_hand(secret: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    let short = if secret.len() > 64 { Sha256::digest(secret).to_vec() } else { secret.to_vec() };
    block[..short.len()].copy_from_slice(&short);
    let inner = Sha256::digest([block.map(|b| b ^ 0x36).as_slice(), text].concat());
    Sha256::digest([block.map(|b| b ^ 0x5c).as_slice(), &inner].concat()).to_vec()
}

fn signed(id: &str, time: i64, body: &[u8]) -> String {
    let secret = STANDARD.decode(SECRET).unwrap();
    format!(
        "v1,{}",
        STANDARD.encode(by_hand(&secret, &[format!("{id}.{time}.").as_bytes(), body].concat()))
    )
}

fn standard_call(
    id: &str,
    time: &str,
    signature: &str,
    body: &[u8],
) -> Result<Proof, SignatureFault> {
    check(
        WebhookScheme::Standard,
        &[SECRET],
        &[("webhook-id", id), ("webhook-timestamp", time), ("webhook-signature", signature)],
        body,
        NOW,
    )
}

#[test]
fn the_published_vector_of_standard_webhooks_is_good() {
    // From the test suites of the reference libraries.
    let body = br#"{"test": 2432232314}"#;
    let (id, signature) =
        ("msg_p5jXN8AQM9LWM0D4loKWxJek", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_eq!(signed(id, NOW, body), signature);
    assert_eq!(
        standard_call(id, "1614265330", signature, body),
        Ok(Proof { id: Some(id.to_owned()) })
    );
    let list = format!("v1a,AAAA v1,{} junk {signature} v2,x", STANDARD.encode([0; 32]));
    assert!(standard_call(id, "1614265330", &list, body).is_ok(), "one of a list is enough");
    let prefixed = format!("whsec_{SECRET}");
    let list =
        [("webhook-id", id), ("webhook-timestamp", "1614265330"), ("webhook-signature", signature)];
    let other = STANDARD.encode([7; 24]);
    assert!(
        check(WebhookScheme::Standard, &[&other, &prefixed], &list, body, NOW).is_ok(),
        "both secrets are valid during a rotation"
    );
    assert_eq!(
        check(WebhookScheme::Standard, &[&other], &list, body, NOW),
        Err(SignatureFault::Wrong)
    );
}

#[test]
fn the_published_vector_of_github_is_good() {
    // From "Validating webhook deliveries".
    let (secret, body) = ("It's a Secret to Everybody", b"Hello, World!");
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let call = |signature: &str, delivery: &str| {
        check(
            WebhookScheme::Github,
            &[secret],
            &[("X-Hub-Signature-256", signature), ("X-GitHub-Delivery", delivery)],
            body,
            NOW,
        )
    };
    let proof = call(signature, "1").unwrap();
    assert_eq!(call(signature, "2").unwrap(), proof, "the id of the delivery is not signed");
    assert!(
        proof
            .id
            .unwrap()
            .starts_with("sha256-dffd6021bb2bd5b0af676290809ec3a53191dd81c7f70a4b28688a362182986f")
    );
    for (bad, fault) in [
        (&signature[..70], SignatureFault::Malformed("x-hub-signature-256")),
        (&signature[..69], SignatureFault::Wrong),
        ("sha256=", SignatureFault::Wrong),
        (
            "sha1=757107ea0eb2509fc211221cce984b8a37570b6d",
            SignatureFault::Malformed("x-hub-signature-256"),
        ),
        (
            "sha256=+f7107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1",
            SignatureFault::Malformed("x-hub-signature-256"),
        ),
        (&signature.replace("757", "756"), SignatureFault::Wrong),
    ] {
        assert_eq!(call(bad, "1"), Err(fault), "{bad}");
    }
}

#[test]
fn a_time_counts_up_to_the_tolerance_in_both_directions() {
    for (off, good) in [
        (-301, false),
        (-300, true),
        (-299, true),
        (0, true),
        (299, true),
        (300, true),
        (301, false),
        (1_000_000, false),
    ] {
        let time = NOW + off;
        let called =
            standard_call("msg_1", &time.to_string(), &signed("msg_1", time, b"{}"), b"{}");
        assert_eq!(called.is_ok(), good, "{off}: {called:?}");
    }
    for time in
        ["", "-1", "+1614265330", " 1614265330", "1614265330.0", "0x60", "99999999999999999999"]
    {
        let called = standard_call("msg_1", time, &signed("msg_1", NOW, b"{}"), b"{}");
        assert!(called.is_err(), "{time:?}");
    }
}

#[test]
fn an_id_with_a_full_stop_is_refused_because_the_signed_text_would_be_ambiguous() {
    let body = format!("{NOW}.evil");
    let signature = signed("msg", NOW, body.as_bytes());
    assert!(standard_call("msg", &NOW.to_string(), &signature, body.as_bytes()).is_ok());
    // The same signed bytes, with the beginning of the body read as a timestamp.
    let moved = standard_call(&format!("msg.{NOW}"), &NOW.to_string(), &signature, b"evil");
    assert_eq!(moved, Err(SignatureFault::Malformed("webhook-id")));
    assert_eq!(standard_call("a b", "1", "x", b""), Err(SignatureFault::Malformed("webhook-id")));
    assert_eq!(
        standard_call(&"x".repeat(ID + 1), "1", "x", b""),
        Err(SignatureFault::Malformed("webhook-id"))
    );
}

#[test]
fn missing_and_repeated_headers_are_refused() {
    let (time, signature) = (NOW.to_string(), signed("msg_1", NOW, b"{}"));
    let all = [
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", time.as_str()),
        ("webhook-signature", signature.as_str()),
    ];
    assert!(check(WebhookScheme::Standard, &[SECRET], &all, b"{}", NOW).is_ok());
    for n in 0..all.len() {
        let without: Vec<_> =
            all.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, header)| *header).collect();
        assert_eq!(
            check(WebhookScheme::Standard, &[SECRET], &without, b"{}", NOW),
            Err(SignatureFault::Missing(all[n].0))
        );
        let twice: Vec<_> = all.iter().chain([&all[n]]).copied().collect();
        let mut map = HeaderMap::new();
        for (name, value) in &twice {
            map.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let called = verify(
            WebhookScheme::Standard,
            &[key(WebhookScheme::Standard, SECRET)],
            &WebhookKey::unknown(),
            &map,
            b"{}",
            NOW,
        );
        assert_eq!(called, Err(SignatureFault::Twice(all[n].0)));
    }
    assert_eq!(
        check(WebhookScheme::Standard, &[], &all, b"{}", NOW),
        Err(SignatureFault::Wrong),
        "the spare key is random"
    );
}

#[test]
fn a_bearer_call_needs_the_right_token() {
    let token = "tok-0123456789abcdef";
    let call = |list: &[(&str, &str)]| {
        check(WebhookScheme::Bearer, &["old-0123456789abcdef", token], list, b"x", NOW)
    };
    let header = format!("Bearer {token}");
    assert_eq!(call(&[("authorization", &header)]), Ok(Proof { id: None }));
    assert_eq!(
        call(&[("Authorization", &header.replace("Bearer", "bearer"))]),
        Ok(Proof { id: None })
    );
    let with_key = call(&[
        ("authorization", &header),
        ("Idempotency-Key", "\"a-1\""),
        ("webhook-id", "other"),
    ]);
    assert_eq!(with_key, Ok(Proof { id: Some("\"a-1\"".to_owned()) }));
    assert_eq!(
        call(&[("authorization", &header), ("webhook-id", "msg.1")]),
        Ok(Proof { id: Some("msg.1".to_owned()) })
    );
    for bad in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer tok-0123456789abcde",
        "Bearer tok-0123456789abcdefg",
        "Basic tok-0123456789abcdef",
        token,
    ] {
        assert!(call(&[("authorization", bad)]).is_err(), "{bad:?}");
    }
}

#[test]
fn a_weak_or_damaged_secret_is_refused_and_never_repeated() {
    for (scheme, secret) in [
        (WebhookScheme::Standard, "whsec_not base64 at all, canary"),
        (WebhookScheme::Standard, "whsec_Y2FuYXJ5"),
        (WebhookScheme::Github, "canary"),
        (WebhookScheme::Bearer, "canary canary canary"),
    ] {
        let fault = WebhookKey::new(scheme, secret).unwrap_err().to_string();
        assert!(!fault.contains("canary") && !fault.contains("Y2Fu"), "{fault}");
    }
    assert_eq!(format!("{:?}", key(WebhookScheme::Github, "canary-0123456789")), "Key");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn signed_calls_pass_and_any_change_fails(
        id in "[A-Za-z0-9_-]{1,40}",
        off in -300i64..=300,
        body in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        flip in 1u8..=255,
    ) {
        let time = NOW + off;
        let signature = signed(&id, time, &body);
        prop_assert!(standard_call(&id, &time.to_string(), &signature, &body).is_ok());
        let mut changed = body.clone();
        if changed.is_empty() { changed.push(flip) } else { let at = at.index(changed.len()); changed[at] ^= flip }
        prop_assert_eq!(standard_call(&id, &time.to_string(), &signature, &changed), Err(SignatureFault::Wrong));
        let other = format!("{id}x");
        prop_assert!(standard_call(&other, &time.to_string(), &signature, &body).is_err());
        prop_assert!(standard_call(&id, &(time + 1).to_string(), &signature, &body).is_err());
        let cut = &signature[..3 + at.index(signature.len() - 3)];
        prop_assert!(standard_call(&id, &time.to_string(), cut, &body).is_err());
        let secret = [0x5a; 20].map(char::from).iter().collect::<String>();
        let github = format!("sha256={}", hex(&by_hand(secret.as_bytes(), &body)));
        prop_assert!(check(WebhookScheme::Github, &[&secret], &[("x-hub-signature-256", &github)], &body, NOW).is_ok());
        prop_assert_eq!(check(WebhookScheme::Github, &[&secret], &[("x-hub-signature-256", &github)], &changed, NOW), Err(SignatureFault::Wrong));
    }

    #[test]
    fn no_headers_make_it_panic_or_believe(
        names in prop::collection::vec(0usize..6, 0..6),
        values in prop::collection::vec("[ -~]{0,40}", 6),
        body in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        const NAMES: [&str; 6] =
            ["webhook-id", "webhook-timestamp", "webhook-signature", "x-hub-signature-256", "authorization", "idempotency-key"];
        let list: Vec<_> = names.iter().enumerate().map(|(n, name)| (NAMES[*name], values[n].as_str())).collect();
        for scheme in [WebhookScheme::Standard, WebhookScheme::Github, WebhookScheme::Bearer] {
            let secret = if scheme == WebhookScheme::Standard { SECRET } else { "a-secret-nobody-guesses" };
            prop_assert!(check(scheme, &[secret], &list, &body, NOW).is_err());
        }
    }
}
