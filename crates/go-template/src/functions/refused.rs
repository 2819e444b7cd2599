//! Functions whose result is not the same from run to run, and some that nothing but secrets are made with.

use super::GoFunction;

const RANDOM: &str = "its result is not the same from run to run, so federate does not carry it out";
const SECRET: &str = "it makes or reads secrets, which federate does not carry out";

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::unavailable("now", RANDOM),
    GoFunction::unavailable("ago", RANDOM),
    GoFunction::unavailable("shuffle", RANDOM),
    GoFunction::unavailable("randAlphaNum", RANDOM),
    GoFunction::unavailable("randAlpha", RANDOM),
    GoFunction::unavailable("randAscii", RANDOM),
    GoFunction::unavailable("randNumeric", RANDOM),
    GoFunction::unavailable("randInt", RANDOM),
    GoFunction::unavailable("randBytes", RANDOM),
    GoFunction::unavailable("uuidv4", RANDOM),
    GoFunction::unavailable("bcrypt", RANDOM),
    GoFunction::unavailable("htpasswd", RANDOM),
    GoFunction::unavailable("genPrivateKey", RANDOM),
    GoFunction::unavailable("genCA", RANDOM),
    GoFunction::unavailable("genCAWithKey", RANDOM),
    GoFunction::unavailable("genSelfSignedCert", RANDOM),
    GoFunction::unavailable("genSelfSignedCertWithKey", RANDOM),
    GoFunction::unavailable("genSignedCert", RANDOM),
    GoFunction::unavailable("genSignedCertWithKey", RANDOM),
    GoFunction::unavailable("encryptAES", RANDOM),
    GoFunction::unavailable("derivePassword", SECRET),
    GoFunction::unavailable("buildCustomCert", SECRET),
    GoFunction::unavailable("decryptAES", SECRET),
];
