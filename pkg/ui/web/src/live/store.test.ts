import { beforeEach, expect, test } from 'vitest';
import type { Cluster, Machine } from '../api/types';
import { RowStore } from './store';

const created = '2026-11-22T12:00:00Z';
const cluster = (name: string, state: Cluster['state'] = 'Ready'): Cluster => ({
  namespace: 'a',
  name,
  state,
  created,
});
const machine = (name: string, of: string): Machine => ({
  namespace: 'a',
  name,
  cluster: of,
  state: 'Running',
  created,
});

let frame: (() => void) | undefined;
let store: RowStore;
let published = 0;

function nextFrame() {
  const publish = frame;
  frame = undefined;
  publish?.();
}

beforeEach(() => {
  published = 0;
  store = new RowStore((publish) => (frame = publish));
  store.subscribe(() => published++);
});

test('a burst of changes is published once, in the next frame', () => {
  store.apply({ kind: 'clusters', put: [cluster('x')] });
  store.apply({ kind: 'clusters', put: [cluster('x', 'Failed'), cluster('y')] });
  expect(store.snapshot().clusterList).toEqual([]);
  nextFrame();
  expect(published).toBe(1);
  expect(store.snapshot().clusterList.map((c) => `${c.name} ${c.state}`)).toEqual(['x Failed', 'y Ready']);
});

test('a reset removes the rows that it does not contain', () => {
  store.apply({ kind: 'clusters', put: [cluster('x'), cluster('y')] });
  store.apply({ kind: 'clusters', reset: true, put: [cluster('y')] });
  nextFrame();
  expect([...store.snapshot().clusters.keys()]).toEqual(['a/y']);
});

test('machines are grouped by cluster, and other groups keep their identity', () => {
  store.apply({ kind: 'machines', put: [machine('x-2', 'x'), machine('x-1', 'x'), machine('y-1', 'y')] });
  nextFrame();
  const before = store.snapshot().machines;
  expect(before.get('a/x')?.map((m) => m.name)).toEqual(['x-1', 'x-2']);

  store.apply({ kind: 'machines', gone: ['a/x-1'] });
  nextFrame();
  const after = store.snapshot().machines;
  expect(after.get('a/x')?.map((m) => m.name)).toEqual(['x-2']);
  expect(after.get('a/y')).toBe(before.get('a/y'));
});

test('a cluster whose last machine is gone has no group', () => {
  store.apply({ kind: 'machines', put: [machine('x-1', 'x')] });
  store.apply({ kind: 'machines', gone: ['a/x-1'] });
  nextFrame();
  expect(store.snapshot().machines.has('a/x')).toBe(false);
});

test('a change of machines keeps the identity of the clusters', () => {
  store.apply({ kind: 'clusters', put: [cluster('x')] });
  nextFrame();
  const before = store.snapshot().clusterList;
  store.apply({ kind: 'machines', put: [machine('x-1', 'x')] });
  nextFrame();
  expect(store.snapshot().clusterList).toBe(before);
});

test('a solved problem disappears, and the same problem of another namespace remains', () => {
  const problem = { kind: 'machines' as const, error: 'forbidden', reason: 'Forbidden' };
  store.setProblem({ ...problem, namespace: 'a' });
  store.setProblem({ ...problem, namespace: 'b' });
  store.clearProblem({ kind: 'machines', namespace: 'a' });
  nextFrame();
  expect(store.snapshot().problems.map((p) => p.namespace)).toEqual(['b']);
});
