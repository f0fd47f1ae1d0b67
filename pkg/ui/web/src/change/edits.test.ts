import { expect, test } from 'vitest';
import {
  bump,
  bumpAgents,
  isProtected,
  labelsOf,
  poolsOf,
  scale,
  setLabels,
  setPaused,
  setProtected,
  setVersion,
} from './edits';
import { removeAt, setAt, valueAt } from './yaml';

const manifest = `# The shop's cluster.
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
  namespace: shop
spec:
  kubernetesVersion: "v1.36.2+k3s1" # tested in March
  rkeConfig:
    machineGlobalConfig:
      cni:   cilium
    machinePools:
    - name: servers
      quantity: 1 # keep it odd
      etcdRole: true
      controlPlaneRole: true
    - name: workers
      workerRole: true
      paused: true
      # the last line of the pool
    etcdSnapshotCreate:
      generation: 4
---
apiVersion: rke-machine.cattle.io/v1
kind: Amazonec2Config
metadata:
  name: nc-demo
instanceType: t3.large   # cheap
`;

/** The lines that differ, with their signs. */
function changes(text: string, before = manifest): string[] {
  const [old, next] = [before.split('\n'), text.split('\n')];
  return [
    ...old.filter((line) => !next.includes(line)).map((line) => `- ${line}`),
    ...next.filter((line) => !old.includes(line)).map((line) => `+ ${line}`),
  ];
}

test.each([
  ['scale', scale(manifest, 'servers', 3), ['-       quantity: 1 # keep it odd', '+       quantity: 3 # keep it odd']],
  ['scale a pool without a size', scale(manifest, 'workers', 2), ['+       quantity: 2']],
  ['no difference', scale(manifest, 'servers', 1), []],
  [
    'the version',
    setVersion(manifest, 'v1.36.3+k3s1'),
    [
      '-   kubernetesVersion: "v1.36.2+k3s1" # tested in March',
      '+   kubernetesVersion: v1.36.3+k3s1 # tested in March',
    ],
  ],
  ['pause', setPaused(manifest, 'servers', true), []],
  ['resume', setPaused(manifest, 'workers', false), ['-       paused: true']],
  ['protect', setProtected(manifest, true), ['+   annotations:', '+     drover.io/protect: "true"']],
  [
    'a label',
    setLabels(manifest, { team: 'shop', cost: '12' }),
    ['+   labels:', '+     team: shop', '+     cost: "12"'],
  ],
  ['a snapshot', bump(manifest, 'etcdSnapshotCreate'), ['-       generation: 4', '+       generation: 5']],
  [
    'a restore',
    bump(manifest, 'etcdSnapshotRestore', { name: 's1', restoreRKEConfig: 'all' }),
    ['+     etcdSnapshotRestore:', '+       name: s1', '+       restoreRKEConfig: all', '+       generation: 1'],
  ],
  ['agents', bumpAgents(manifest), ['+   redeploySystemAgentGeneration: 1']],
])('%s changes these lines only', (_, text, want) => {
  expect(changes(text)).toEqual(want);
});

test('a pause adds a line to its pool', () => {
  const paused = setPaused(manifest, 'servers', true);
  expect(poolsOf(paused).map((pool) => pool.paused)).toEqual([true, true]);
  expect(setPaused(paused, 'servers', false)).toBe(manifest);
});

test('protection and labels go without a trace', () => {
  const on = setProtected(manifest, true);
  expect(isProtected(on)).toBe(true);
  expect(setProtected(on, false)).toBe(manifest);
  const labelled = setLabels(manifest, { a: '1', b: '2' });
  expect(labelsOf(labelled)).toEqual({ a: '1', b: '2' });
  expect(labelsOf(setLabels(labelled, { b: '3' }))).toEqual({ b: '3' });
  expect(setLabels(labelled, {})).toBe(manifest);
});

test('pools have their sizes, roles and scalers', () => {
  const scaled = setAt(
    setAt(manifest, ['spec', 'rkeConfig', 'machinePools', 1, 'autoscalingMinSize'], 1),
    ['spec', 'rkeConfig', 'machinePools', 1, 'autoscalingMaxSize'],
    3,
  );
  expect(poolsOf(scaled)).toEqual([
    { name: 'servers', quantity: 1, paused: false, scaled: false, roles: ['etcd', 'control plane'] },
    { name: 'workers', quantity: undefined, paused: true, scaled: true, roles: ['worker'] },
  ]);
});

test.each([
  ['empty braces', 'kind: Cluster\nmetadata:\n  labels: {}\nspec: {}\n'],
  ['an empty value', 'kind: Cluster\nmetadata:\n  labels:\nspec: {}\n'],
  ['null', 'kind: Cluster\nmetadata:\n  labels: null\nspec: {}\n'],
  ['no key', 'kind: Cluster\nmetadata:\n  name: a\nspec: {}\n'],
  ['no last line break', 'kind: Cluster\nspec: {}\nmetadata:\n  labels: {}'],
])('a label replaces %s', (_, text) => {
  expect(labelsOf(setLabels(text, { a: 'b' }))).toEqual({ a: 'b' });
});

test.each([
  ['broken YAML', 'kind: Cluster\n  a: b\n:', 'no valid YAML'],
  ['no cluster', 'kind: Other\n', 'no Cluster'],
  ['braces', 'kind: Cluster\nmetadata: {name: a}\n', 'braces'],
])('a form refuses %s', (_, text, message) => {
  expect(() => setLabels(text, { a: 'b' })).toThrow(message);
});

test('a form refuses a pool that is gone, and an impossible size', () => {
  expect(() => scale(manifest, 'gone', 1)).toThrow('no machine pool gone');
  expect(() => scale(manifest, 'servers', -1)).toThrow('0 or more');
});

test('the first key of an entry of a list can go', () => {
  const text = 'kind: Cluster\nspec:\n  rkeConfig:\n    machinePools:\n      - paused: true\n        name: a\n';
  expect(setPaused(text, 'a', false)).toBe('kind: Cluster\nspec:\n  rkeConfig:\n    machinePools:\n      - name: a\n');
});

test('a block of text and a list are replaced as a whole', () => {
  const text = 'kind: Cluster\nspec:\n  a: |\n    one\n    two\n  b:\n    - 1\n    - 2\n  c: 3\n';
  const next = setAt(setAt(text, ['spec', 'a'], 'x'), ['spec', 'b'], ['z']);
  expect(next).toBe('kind: Cluster\nspec:\n  a: x\n  b:\n  - z\n  c: 3\n');
  expect(removeAt(next, ['spec', 'a'])).toBe('kind: Cluster\nspec:\n  b:\n  - z\n  c: 3\n');
  expect(removeAt(next, ['spec', 'gone'])).toBe(next);
});

test('a request has at least the generation that the server wants', () => {
  expect(valueAt(bump(manifest, 'rotateCertificates', {}, 4), ['spec', 'rkeConfig', 'rotateCertificates'])).toEqual({
    generation: 4,
  });
});

test.each(['yes', 'on', 'No', 'y', '1_000', '0b11', '014', '1:30', '12', 'null'])(
  'the key and the value %s stay text in YAML 1.1',
  (word) => {
    const before = 'kind: Cluster\nmetadata:\n  labels:\n    a: b\n';
    expect(changes(setLabels(before, { a: 'b', [word]: word }), before)).toEqual([`+     "${word}": "${word}"`]);
    expect(setLabels(before, { a: word })).toBe(before.replace('a: b', `a: "${word}"`));
  },
);

test.each([
  ['adds a label', { a: '1', mine: '2' }, { a: '1', theirs: 'x' }, { a: '1', theirs: 'x', mine: '2' }],
  ['removes a label', {}, { a: '1', theirs: 'x' }, { theirs: 'x' }],
  ['removes a label that is gone', {}, { theirs: 'x' }, { theirs: 'x' }],
  ['changes a label', { a: '2' }, { a: '3', theirs: 'x' }, { a: '2', theirs: 'x' }],
  ['adds a label, and another one removed the first', { a: '1', mine: '2' }, {}, { mine: '2' }],
  ['leaves a label that another one changed', { a: '1', mine: '2' }, { a: '3' }, { a: '3', mine: '2' }],
  ['adds the label that another one added', { a: '1', b: '2' }, { a: '1', b: '2' }, { a: '1', b: '2' }],
])('a user who began with one label %s', (_, next, now, want) => {
  const live = setLabels(manifest, now);
  expect(labelsOf(setLabels(live, next, { a: '1' }))).toEqual(want);
});

test('a label with the name of a method can go', () => {
  expect(setLabels(setLabels(manifest, { constructor: 'a' }), {})).toBe(manifest);
});
