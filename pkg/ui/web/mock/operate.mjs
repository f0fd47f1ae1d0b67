// Made-up answers about snapshots, restores and deletions.
import { ago } from './data.mjs';

const node = (row, i) => `${row.name}-servers-${['5xk2p', 'q8m4d', 'z7t9c'][i]}`;

function snapshot(row, i, age, more = {}) {
  const file = `etcd-snapshot-${node(row, i)}-17${90000000 + age}`;
  return {
    name: `${row.name}-${file.slice(-10)}-local`,
    file,
    created: ago(age),
    place: `node ${node(row, i)}`,
    version: row.version,
    size: 41_700_000 + age * 7,
    state: 'Successful',
    hasConfig: true,
    ...more,
  };
}

const snapshots = (row) => ({
  items: [
    snapshot(row, 0, 2_900),
    snapshot(row, 1, 2_905),
    snapshot(row, 2, 2_910),
    snapshot(row, 0, 20_900, {
      place: 'S3, bucket cluster-snapshots, folder demo',
      name: `${row.name}-before-upgrade`,
    }),
    snapshot(row, 1, 38_900, {
      state: 'Failed',
      size: 0,
      message: 'the storage answers 403: the key may not write to bucket cluster-snapshots',
    }),
  ],
});

function briefing(row, name, config) {
  const found = snapshots(row).items.find((item) => item.name === name);
  return {
    lines: [
      { label: 'Management', text: 'https://10.0.0.10:6443' },
      { label: 'Cluster', text: `${row.namespace}/${row.name}` },
      { label: 'Snapshot', text: name },
      { label: 'Taken', text: found ? `${found.created.slice(0, 19)}Z` : 'not known' },
      { label: 'Kept by', text: found?.place ?? 'not known' },
      { label: 'Version then', text: 'v1.35.6+rke2r1' },
      { label: 'Version now', text: row.version },
      { label: 'Version after', text: config === 'none' ? row.version : 'v1.35.6+rke2r1' },
    ],
    restored:
      config === 'none'
        ? []
        : [
            { field: 'spec.kubernetesVersion', old: row.version, new: 'v1.35.6+rke2r1' },
            ...(config === 'all'
              ? [{ field: 'spec.rkeConfig.machineGlobalConfig.cni', old: 'cilium', new: 'calico' }]
              : []),
          ],
    refused: found?.state === 'Failed' ? `snapshot ${name} was not taken: ${found.message}` : undefined,
  };
}

/** The list of snapshots, or the briefing about the restore of one. */
export const snapshotAnswer = (row, name, config) => ({
  status: 200,
  body: name ? briefing(row, name, config) : snapshots(row),
});

export const removal = (row, machines) => ({
  seen: 'seen-1',
  cluster: `${row.namespace}/${row.name}`,
  machines: machines.map((m) => ({ name: m.name, pool: m.pool, roles: (m.roles ?? []).join(','), host: 'Removed' })),
  goes: [`the management Cluster ${row.id}, with its tokens and its kubeconfig`, '12 snapshots on the machines'],
  stays: ['the files of 48 snapshots in S3', 'the credential cattle-global-data:cc-aws01'],
  blocks:
    row.state === 'Failed'
      ? [
          `Cluster ${row.namespace}/${row.name} has the finalizer example.com/backup: another program, which has ` +
            'set it for example.com and must remove it: Drover never does',
        ]
      : [],
  deleting: row.state === 'Deleting',
});

/** Every operation is possible. */
export const operations = () => ({
  status: 200,
  body: {
    items: ['etcdSnapshotCreate', 'etcdSnapshotRestore', 'rotateCertificates', 'rotateEncryptionKeys'].map(
      (field) => ({ field, generation: 2 }),
    ),
  },
});
