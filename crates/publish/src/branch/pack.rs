//! Writes new objects into the repository: a few as loose objects, many as one pack.
//!
//! Facts: gitformat-pack(5). The pack has no deltas; `git gc` creates them when it repacks.

use std::fs::File;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::{ObjectType, OdbLookupFlags, Repository};
use rayon::prelude::*;
use sha1::{Digest, Sha1};

use super::Error;
use super::comparison::UnwrittenObject;

/// From this number on, objects are written as a pack; git's own limit for fetched objects.
const PACK_FROM: usize = 100;

/// Stores the objects that the repository does not have.
pub(super) fn store_objects(repository: &Repository, objects: &[UnwrittenObject<'_>]) -> Result<(), Error> {
    let odb = repository.odb()?;
    let missing = objects.iter().filter(|object| !odb.exists_ext(object.id, OdbLookupFlags::NO_REFRESH));
    let new: Vec<&UnwrittenObject<'_>> = missing.collect();
    if new.len() < PACK_FROM {
        for object in new {
            odb.write(object.kind, object.bytes)?;
        }
        return Ok(());
    }
    let packed: Vec<Vec<u8>> =
        new.par_iter().map(|object| encode_object(object)).collect::<Result<_, _>>()?;
    let count = u32::try_from(packed.len()).map_err(io::Error::other)?;
    let mut hash = Sha1::new();
    let mut writer = odb.packwriter()?;
    let header = [*b"PACK", 2u32.to_be_bytes(), count.to_be_bytes()].concat();
    for bytes in std::iter::once(&header).chain(&packed) {
        hash.update(bytes);
        writer.write_all(bytes)?;
    }
    let trailer = hash.finalize();
    writer.write_all(&trailer)?;
    writer.commit()?;
    drop(writer);
    force_to_disk(repository, &git2::Oid::from_bytes(&trailer)?.to_string())
}

/// Forces the pack to the disk, because after a power failure a branch must not exist without its objects.
fn force_to_disk(repository: &Repository, name: &str) -> Result<(), Error> {
    let folder = repository.commondir().join("objects/pack");
    for extension in ["pack", "idx"] {
        File::open(folder.join(format!("pack-{name}.{extension}")))?.sync_all()?;
    }
    Ok(File::open(&folder)?.sync_all()?)
}

/// An object in the format of packs: kind and size, then the compressed content.
fn encode_object(object: &UnwrittenObject<'_>) -> io::Result<Vec<u8>> {
    let kind: u8 = match object.kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        _ => 3,
    };
    // The first byte has four bits of the size next to the kind, the others seven bits each; the highest bit
    // says that another byte follows.
    let mut size = object.bytes.len();
    let mut byte = (kind << 4) | (size.to_le_bytes()[0] & 0x0f);
    size >>= 4;
    let mut out = Vec::with_capacity(object.bytes.len() / 2 + 16);
    while size > 0 {
        out.push(byte | 0x80);
        byte = size.to_le_bytes()[0] & 0x7f;
        size >>= 7;
    }
    out.push(byte);
    let mut encoder = ZlibEncoder::new(out, Compression::fast());
    encoder.write_all(object.bytes)?;
    encoder.finish()
}
