//! Sprig's functions for checksums, JSON, and texts in base 64 and base 32.

use sha2::Digest;

use super::FunctionParameter::{Any, Text};
use super::{Arguments, GoFunction, make_text};
use crate::budget::TemplateBudget;
use crate::error::{TemplateErrorKind, TemplateFailure};
use crate::json::{JsonStyle, write_json};
use crate::text::to_valid_text;
use crate::value::GoValue;

const COMPACT: JsonStyle = JsonStyle { pretty: false, escapes_html: true };
const PRETTY: JsonStyle = JsonStyle { pretty: true, escapes_html: true };
const RAW: JsonStyle = JsonStyle { pretty: false, escapes_html: false };

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("sha1sum", &[Text], |a, budget| {
        budget.spend_steps(a.text(0).len())?;
        Ok(write_hex(&sha1::Sha1::digest(a.text(0))))
    }),
    GoFunction::new("sha256sum", &[Text], |a, budget| {
        budget.spend_steps(a.text(0).len())?;
        Ok(write_hex(&sha2::Sha256::digest(a.text(0))))
    }),
    GoFunction::new("sha512sum", &[Text], |a, budget| {
        budget.spend_steps(a.text(0).len())?;
        Ok(write_hex(&sha2::Sha512::digest(a.text(0))))
    }),
    GoFunction::new("adler32sum", &[Text], |a, budget| {
        budget.spend_steps(a.text(0).len())?;
        Ok(GoValue::text(sum_adler32(a.text(0)).to_string()))
    }),
    GoFunction::new("b64enc", &[Text], |a, budget| make_text(encode(&BASE64, a.text(0)), budget)),
    GoFunction::new("b64dec", &[Text], |a, budget| make_text(decode(&BASE64, a.text(0)), budget)),
    GoFunction::new("b32enc", &[Text], |a, budget| make_text(encode(&BASE32, a.text(0)), budget)),
    GoFunction::new("b32dec", &[Text], |a, budget| make_text(decode(&BASE32, a.text(0)), budget)),
    GoFunction::new("toJson", &[Any], |a, budget| unless_unwritable(a, COMPACT, budget)),
    GoFunction::new("toPrettyJson", &[Any], |a, budget| unless_unwritable(a, PRETTY, budget)),
    GoFunction::new("toRawJson", &[Any], |a, budget| write_json(a.any(0), RAW, budget).map(GoValue::Text)),
    GoFunction::new("mustToJson", &[Any], |a, budget| {
        write_json(a.any(0), COMPACT, budget).map(GoValue::Text)
    }),
    GoFunction::new("mustToPrettyJson", &[Any], |a, budget| {
        write_json(a.any(0), PRETTY, budget).map(GoValue::Text)
    }),
    GoFunction::new("mustToRawJson", &[Any], |a, budget| {
        write_json(a.any(0), RAW, budget).map(GoValue::Text)
    }),
    GoFunction::new("fromJson", &[Text], |a, budget| Ok(read_json(a, budget)?.unwrap_or(GoValue::Nil))),
    GoFunction::new("mustFromJson", &[Text], |a, budget| {
        read_json(a, budget)?.map_err(|error| TemplateFailure::function(format!("json: {error}")))
    }),
];

/// The JSON of a value, or no text for a number that JSON does not have.
fn unless_unwritable(
    arguments: &Arguments,
    style: JsonStyle,
    budget: &mut TemplateBudget,
) -> Result<GoValue, TemplateFailure> {
    match write_json(arguments.any(0), style, budget) {
        Ok(text) => Ok(GoValue::Text(text)),
        Err(failure) if failure.kind == TemplateErrorKind::FunctionFailed => Ok(GoValue::text("")),
        Err(failure) => Err(failure),
    }
}

fn read_json(
    arguments: &Arguments,
    budget: &mut TemplateBudget,
) -> Result<Result<GoValue, serde_json::Error>, TemplateFailure> {
    budget.spend_bytes(arguments.text(0).len().saturating_mul(2))?;
    let value = serde_json::from_str::<serde_json::Value>(&to_valid_text(arguments.text(0)));
    Ok(value.map(|value| GoValue::from_json(&value)))
}

fn write_hex(bytes: &[u8]) -> GoValue {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    GoValue::text(digits.concat())
}

fn sum_adler32(bytes: &[u8]) -> u32 {
    const BASE: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % BASE;
        (low, (high + low) % BASE)
    });
    high << 16 | low
}

/// Digits of some bits, and how many make a group of whole bytes.
struct Encoding {
    name: &'static str,
    alphabet: &'static [u8],
    bits: u32,
    group: usize,
}

const BASE64: Encoding = Encoding {
    name: "base64",
    alphabet: b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    bits: 6,
    group: 4,
};

const BASE32: Encoding =
    Encoding { name: "base32", alphabet: b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", bits: 5, group: 8 };

fn encode(encoding: &Encoding, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mask = (1 << encoding.bits) - 1;
    let mut push = |digit: u32| {
        let digit = encoding.alphabet.get((digit & mask) as usize);
        out.push(digit.copied().unwrap_or(b'='));
    };
    let (mut pending, mut count) = (0_u32, 0);
    for byte in bytes {
        pending = (pending << 8 | u32::from(*byte)) & 0xffff;
        count += 8;
        while count >= encoding.bits {
            count -= encoding.bits;
            push(pending >> count);
        }
    }
    if count > 0 {
        push(pending << (encoding.bits - count));
    }
    out.resize(out.len().next_multiple_of(encoding.group), b'=');
    out
}

/// The bytes, or as the text the error that Go has for them.
fn decode(encoding: &Encoding, text: &[u8]) -> Vec<u8> {
    decode_groups(encoding, text)
        .unwrap_or_else(|at| format!("illegal {} data at input byte {at}", encoding.name).into_bytes())
}

/// The bytes, or where the text is wrong. Line breaks are skipped.
fn decode_groups(encoding: &Encoding, text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::new();
    let (mut pending, mut bits, mut in_group) = (0_u32, 0, 0);
    let mut digits = text.iter().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    while let Some((at, byte)) = digits.next() {
        if *byte == b'=' {
            let rest: Vec<(usize, u8)> = digits.map(|(at, byte)| (at, *byte)).collect();
            return check_padding(encoding, in_group, at, &rest, text.len()).map(|()| out);
        }
        let digit = encoding.alphabet.iter().position(|digit| digit == byte).ok_or(at)?;
        pending = (pending << encoding.bits | u32::try_from(digit).unwrap_or(0)) & 0xffff;
        bits += encoding.bits;
        in_group = (in_group + 1) % encoding.group;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(pending >> bits & 0xff).unwrap_or(0));
        }
    }
    if in_group == 0 { Ok(out) } else { Err(text.len().saturating_sub(in_group)) }
}

/// Checks what follows the first `=` of a group, which has some digits before it. The error is the place that Go names.
fn check_padding(
    encoding: &Encoding,
    in_group: usize,
    at: usize,
    rest: &[(usize, u8)],
    length: usize,
) -> Result<(), usize> {
    let wanted = encoding.group.saturating_sub(in_group + 1);
    if in_group < 2 || (encoding.group == 8 && rest.len() >= 8) {
        return Err(at);
    }
    if rest.len() < wanted {
        return Err(length);
    }
    if let Some((wrong, _)) = rest.iter().take(wanted).find(|(_, byte)| *byte != b'=') {
        return Err(wrong.saturating_sub(1));
    }
    match rest.get(wanted) {
        Some((after, _)) if encoding.group == 4 => Err(*after),
        // Digits that are no whole number of bytes.
        _ if encoding.group == 8 && matches!(in_group, 3 | 6) => Err(at),
        _ => Ok(()),
    }
}
