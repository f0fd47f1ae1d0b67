// Made-up answers to changes of clusters. Nothing is written.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { preview } from './answers.mjs';
import { effectsOf } from './effects.mjs';

const crd = join(import.meta.dirname, '../../../crds/yaml/provisioning.cattle.io_clusters.yaml');
const seen = 'a1b2c3';

export const manifestHeaders = { ETag: `"${seen}"` };

export const schema = () => ({
  status: 200,
  body: parse(readFileSync(crd, 'utf8')).spec.versions[0].schema.openAPIV3Schema,
});

export const releases = () => ({
  status: 200,
  body: {
    k3s: ['1.34', '1.35', '1.36', '1.37'],
    rke2: ['1.34', '1.35', '1.36', '1.37'],
    networks: ['calico', 'canal', 'cilium', 'flannel', 'none'],
  },
});

const operationFields = ['etcdSnapshotCreate', 'etcdSnapshotRestore', 'rotateCertificates', 'rotateEncryptionKeys'];

/** The operations that a text requests. */
const operationsIn = (text) =>
  operationFields.filter((field) => text.includes(field)).map((field) => ({ field: `spec.rkeConfig.${field}` }));

/** The preview of a text. A tab makes YAML invalid, so it shows a problem. */
export function previewOf(row, machines, text) {
  const line = text.split('\n').findIndex((l) => l.includes('\t')) + 1;
  if (line > 0)
    return {
      status: 200,
      body: { seen, problems: [{ line, column: 1, message: 'found a tab where indentation must be spaces' }] },
    };
  const report = { ...(effectsOf(row, machines, text) ?? preview(row, machines)), operations: operationsIn(text) };
  return { status: 200, body: { seen, report } };
}

export const written = (row) => ({ status: 200, body: { written: [`Cluster ${row.namespace}/${row.name}`] } });
