// Dumps of clusters in which everything runs as it is rendered, but for what somebody has changed.

import fs from 'node:fs';
import path from 'node:path';

import { federate, run, scratch } from './harness.mjs';

/** What federate and others have written, as `kubectl get -o json --show-managed-fields` shows it. */
export function manage(object, others = []) {
  const fields = (value) => (value !== null && typeof value === 'object' && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).map(([key, below]) => [`f:${key}`, fields(below)])) : {});
  const { apiVersion, kind, metadata, ...body } = object;
  const own = { ...fields(body), 'f:metadata': { 'f:labels': fields(metadata.labels || {}), 'f:annotations': fields(metadata.annotations || {}) } };
  object.metadata = { ...metadata, uid: '1', resourceVersion: '7', managedFields: [{ manager: 'federate', operation: 'Apply', apiVersion, time: '2026-11-20T08:00:00Z', fieldsType: 'FieldsV1', fieldsV1: own }, ...others] };
  return object;
}

/** The dumps of a repo's clusters: everything as rendered, but for what `edit` does to the objects of a cluster. */
export function writeDump(name, repo, edit) {
  const dump = path.join(scratch, name);
  const empty = path.join(scratch, name + '-empty');
  const clusters = JSON.parse(run(federate, ['clusters', '.', '-o', 'json'], repo)).clusters.map((row) => row.name);
  for (const cluster of clusters) fs.mkdirSync(path.join(empty, cluster), { recursive: true });
  const { actions } = JSON.parse(run(federate, ['apply', '.', '--dry-run=client', '--observed', empty, '-o', 'json'], repo));
  for (const cluster of clusters) {
    const objects = actions.filter((action) => action.cluster === cluster && action.result).map((action) => manage(structuredClone(action.result)));
    const items = edit(cluster, objects);
    if (!items) continue;
    fs.mkdirSync(path.join(dump, cluster), { recursive: true });
    fs.writeFileSync(path.join(dump, cluster, 'live.yaml'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  }
  return dump;
}

/** Another client writes a field of an object, where that is. */
export function write(object, at, value, manager, time) {
  if (!object) return;
  const keys = at.split('/').slice(1);
  let place = object;
  for (const key of keys.slice(0, -1)) place = place[key] ??= {};
  place[keys.at(-1)] = value;
  const path = keys.reduceRight((below, key) => ({ [`f:${key}`]: below }), {});
  object.metadata.managedFields.push({ manager, operation: 'Update', apiVersion: object.apiVersion, time, fieldsType: 'FieldsV1', fieldsV1: path });
}

export const find = (objects, kind, name) => objects.find((object) => object.kind === kind && object.metadata.name === name);
