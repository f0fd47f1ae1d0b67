import { expect, test } from 'vitest';
import { kindOf, obstacleOf, refusalOf, runningIn } from './kinds';

test.each([
  ['etcd snapshot: starting', 'etcdSnapshotCreate', false, 'starting'],
  [
    'etcd restore: waiting to stop k3s services on a',
    'etcdSnapshotRestore',
    false,
    'waiting to stop k3s services on a',
  ],
  ['etcd restore failed: no file', 'etcdSnapshotRestore', true, 'no file'],
  ['certificate rotation: a', 'rotateCertificates', false, 'a'],
  ['encryption key rotation: b', 'rotateEncryptionKeys', false, 'b'],
] as const)('the message %j names its operation', (message, field, failed, step) => {
  expect(runningIn({ state: 'Waiting', message })).toEqual({ kind: kindOf(field), failed, step });
});

test.each([undefined, '', 'configuring worker node(s) a', 'the etcd snapshot: x'])(
  'the message %j names no operation',
  (message) => {
    expect(runningIn({ state: 'Waiting', message })).toBeUndefined();
  },
);

test('a cluster that is deleted runs no operation', () => {
  expect(runningIn({ state: 'Deleting', message: 'etcd restore: starting' })).toBeUndefined();
});

test.each([
  [{ state: 'Ready' }, ''],
  [{ state: 'Paused', message: 'paused' }, ''],
  [{ state: 'Ready', imported: true }, 'did not create'],
  [{ state: 'Deleting' }, 'deleted'],
  [{ state: 'Waiting', message: 'certificate rotation: a' }, 'certificate rotation must end first'],
  [{ state: 'Failed', message: 'etcd restore failed: no file' }, ''],
] as const)('%j permits a request, or says why not', (cluster, text) => {
  const obstacle = obstacleOf(cluster);
  if (text) expect(obstacle).toContain(text);
  else expect(obstacle).toBe('');
});

test.each([
  ['the preview does not have the operation', [], 'larger generation'],
  ['it would fail', [{ field: 'spec.rkeConfig.etcdSnapshotRestore', problem: 'no file' }], 'would fail: no file'],
  [
    'it cannot continue',
    [{ field: 'spec.rkeConfig.etcdSnapshotRestore', stuck: 'no machine' }],
    'would fail: no machine',
  ],
])('a request is refused if %s', (_, operations, text) => {
  expect(refusalOf(kindOf('etcdSnapshotRestore'), { operations })).toContain(text);
});

test('a request that waits is no obstacle', () => {
  const operations = [{ field: 'spec.rkeConfig.etcdSnapshotRestore', held: 'it waits' }];
  expect(refusalOf(kindOf('etcdSnapshotRestore'), { operations })).toBeUndefined();
});
