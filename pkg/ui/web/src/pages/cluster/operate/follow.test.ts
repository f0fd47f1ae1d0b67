import { expect, test } from 'vitest';
import type { Cluster, ObjectEvent } from '../../../api/types';
import { agentProgress, lastEnd, progressOf, type End, type Request } from './follow';

const cluster: Cluster = { namespace: 'a', name: 'demo', state: 'Ready', created: '2026-01-01T00:00:00Z' };
const event = (reason: string, message: string, last = '2026-01-01T00:01:00Z', count = 1): ObjectEvent => ({
  type: 'Normal',
  reason,
  message,
  object: 'Cluster/demo',
  count,
  first: last,
  last,
});
const request = (before?: End): Request => ({ field: 'etcdSnapshotRestore', before });

test('a request that has not begun says so', () => {
  expect(progressOf(request(), cluster, [])).toEqual({
    tone: 'busy',
    text: 'Restore: requested. The etcd restore has not begun.',
    ended: false,
  });
});

test('a request that waits for another operation names it', () => {
  const busy = { ...cluster, state: 'Waiting' as const, message: 'certificate rotation: a' };
  expect(progressOf(request(), busy, []).text).toContain('waits for the certificate rotation to end');
});

test('the row of the cluster says what the operation does', () => {
  const busy = { ...cluster, state: 'Waiting' as const, message: 'etcd restore: etcd is restored' };
  expect(progressOf(request(), busy, [])).toEqual({ tone: 'busy', text: 'Restore: etcd is restored', ended: false });
});

test.each([
  ['OperationSucceeded', 'etcd-restore', 'good', 'Restore: done.'],
  ['OperationFailed', 'etcd-restore: no file', 'bad', 'Restore: failed. no file'],
  [
    'OperationCancelled',
    'etcd-restore: its request was withdrawn',
    'off',
    'Restore: cancelled. its request was withdrawn',
  ],
])('the Event %s ends the operation', (reason, message, tone, text) => {
  expect(progressOf(request(), cluster, [event(reason, message)])).toEqual({ tone, text, ended: true });
});

test('the end of an earlier operation does not count, and its repetition does', () => {
  const old = event('OperationSucceeded', 'etcd-restore');
  const before = lastEnd('etcdSnapshotRestore', [old]);
  expect(progressOf(request(before), cluster, [old]).ended).toBe(false);
  expect(progressOf(request(before), cluster, [{ ...old, count: 2 }]).ended).toBe(true);
  const later = event('OperationSucceeded', 'etcd-restore', '2026-01-01T00:02:00Z');
  expect(progressOf(request(before), cluster, [later, old]).ended).toBe(true);
});

test.each([
  event('OperationSucceeded', 'etcd-snapshot-create'),
  event('OperationStarted', 'etcd-restore'),
  event('OperationSucceeded', 'etcd-restore-find'),
])('the Event $reason $message is not the end of a restore', (other) => {
  expect(lastEnd('etcdSnapshotRestore', [other])).toBeUndefined();
});

test('the upgrade of agents is followed until it has succeeded', () => {
  expect(agentProgress(undefined)).toBeUndefined();
  expect(agentProgress([{ type: 'AgentsUpgraded', status: 'True' }])).toBeUndefined();
  expect(agentProgress([{ type: 'AgentsUpgraded', status: 'Unknown', message: '1 of 3' }])).toEqual({
    tone: 'busy',
    text: '1 of 3',
    ended: false,
  });
  expect(agentProgress([{ type: 'AgentsUpgraded', status: 'False', message: 'no' }])?.tone).toBe('bad');
});

test.each([
  [undefined, undefined, 'busy', 'has not begun', false],
  [{ status: 'True', since: '1' }, '1', 'busy', 'has not begun', false],
  [{ status: 'Unknown', since: '2', message: '1 of 3' }, '1', 'busy', '1 of 3', false],
  [{ status: 'True', since: '3' }, '1', 'good', 'done', true],
  [{ status: 'False', since: '3', message: 'no answer' }, '1', 'bad', 'no answer', true],
] as const)('a requested upgrade of agents with condition %j', (condition, before, tone, text, ended) => {
  const conditions = condition && [{ type: 'AgentsUpgraded', ...condition }];
  const got = progressOf({ field: undefined, before }, { ...cluster, conditions }, []);
  expect(got).toMatchObject({ tone, ended });
  expect(got.text).toContain(text);
});
