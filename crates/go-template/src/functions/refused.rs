//! Functions whose result is not the same from run to run, and some that nothing but secrets are made with.

use super::GoFunction;

const RANDOM: &str = "its result is not the same from run to run, so federate does not carry it out";
const SECRET: &str = "it makes or reads secrets, which federate does not carry out";

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::refused("now", RANDOM),
    GoFunction::refused("ago", RANDOM),
    GoFunction::refused("shuffle", RANDOM),
    GoFunction::refused("randAlphaNum", RANDOM),
    GoFunction::refused("randAlpha", RANDOM),
    GoFunction::refused("randAscii", RANDOM),
    GoFunction::refused("randNumeric", RANDOM),
    GoFunction::refused("randInt", RANDOM),
    GoFunction::refused("randBytes", RANDOM),
    GoFunction::refused("uuidv4", RANDOM),
    GoFunction::refused("bcrypt", RANDOM),
    GoFunction::refused("htpasswd", RANDOM),
    GoFunction::refused("genPrivateKey", RANDOM),
    GoFunction::refused("genCA", RANDOM),
    GoFunction::refused("genCAWithKey", RANDOM),
    GoFunction::refused("genSelfSignedCert", RANDOM),
    GoFunction::refused("genSelfSignedCertWithKey", RANDOM),
    GoFunction::refused("genSignedCert", RANDOM),
    GoFunction::refused("genSignedCertWithKey", RANDOM),
    GoFunction::refused("encryptAES", RANDOM),
    GoFunction::refused("derivePassword", SECRET),
    GoFunction::refused("buildCustomCert", SECRET),
    GoFunction::refused("decryptAES", SECRET),
];
