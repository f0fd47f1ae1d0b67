import { expect, test } from 'vitest';
import type { Cluster } from '../../api/types';
import {
  checkForm,
  credentialChoices,
  emptyForm,
  fieldsOf,
  firstFields,
  formField,
  labelOf,
  newPool,
  placeProblems,
  runningVersions,
  toRequest,
  versionFor,
  versionSuggestions,
  visibleErrors,
  type FormValues,
} from './form';
import type { Driver } from './types';

const driver: Driver = {
  name: 'cloud',
  displayName: 'Cloud',
  schema: {
    properties: {
      apiVersion: { type: 'string' },
      region: { type: 'string', description: 'Where machines are' },
      size: { type: 'string', default: 'small', enum: ['small', 'large'] },
      diskSizeGB: { type: 'integer', default: 20 },
      tags: { type: 'array' },
      isFast: { type: 'boolean' },
      token: { type: 'string' },
    },
    required: ['region', 'size'],
  },
  credential: [{ name: 'token', type: 'string', secret: true, required: true }],
};

const form = (change: Partial<FormValues> = {}): FormValues => ({
  ...emptyForm('team-a', 'rke2', 'v1.36.2+rke2r1'),
  name: 'demo',
  ...change,
});
const pool = { ...newPool([]), config: { region: ['fra'] } };

test('a cluster of existing hosts has no pools, and no values of an earlier driver', () => {
  expect(toRequest(form({ credential: 'cc' }))).toEqual({
    namespace: 'team-a',
    name: 'demo',
    version: 'v1.36.2+rke2r1',
    pools: [],
  });
});

test('a request has numbers, roles in one order, and only fields that are set', () => {
  const pools = [
    { ...pool, size: '3', roles: ['worker' as const, 'etcd' as const], config: { a: [''], b: ['x', ''] } },
  ];
  expect(toRequest(form({ name: ' demo ', driver: 'cloud', credential: 'cc', cni: 'cilium', pools }))).toMatchObject({
    name: 'demo',
    cni: 'cilium',
    driver: 'cloud',
    credential: 'cc',
    pools: [{ name: 'servers', size: 3, roles: ['etcd', 'worker'], config: { b: ['x'] } }],
  });
});

test('K3s has no choice of a network', () => {
  expect(toRequest(form({ distribution: 'k3s', cni: 'cilium' }))).not.toHaveProperty('cni');
});

test.each([
  ['', -1],
  ['three', -1],
  ['-1', -1],
  ['0', 0],
])('the size "%s" is sent as %d', (size, want) => {
  expect(toRequest(form({ driver: 'cloud', pools: [{ ...pool, size }] })).pools[0]?.size).toBe(want);
});

test.each<[string, Partial<FormValues>, Record<string, string>]>([
  ['a complete form', { driver: 'cloud', pools: [pool] }, {}],
  ['no name', { name: ' ' }, { name: 'A cluster needs a name.' }],
  ['a taken name', { name: 'taken' }, { name: 'Namespace team-a has a cluster with this name.' }],
  ['no version', { version: '' }, { version: 'A cluster needs a version, for example v1.36.2+rke2r1.' }],
  [
    'a pool with mistakes',
    { driver: 'cloud', pools: [pool, { ...pool, id: 2, size: 'x', roles: [], config: { diskSizeGB: ['big'] } }] },
    {
      'pools[1].name': 'Another pool has this name.',
      'pools[1].size': 'The size must be a whole number from 0.',
      'pools[1].roles': 'A pool needs a role.',
      'pools[1].config.region': 'The driver requires this field.',
      'pools[1].config.diskSizeGB': 'The value must be a whole number.',
    },
  ],
  ['mistakes in pools that existing hosts have not', { pools: [{ ...pool, size: 'x' }] }, {}],
])('%s', (_, change, want) => {
  expect(checkForm(form(change), driver, new Set(['team-a/taken']))).toEqual(want);
});

test('fields of a schema: required ones first, and none of the credential or of Kubernetes', () => {
  const fields = fieldsOf(driver);
  expect(fields.map(({ name, kind, initial, required }) => [name, kind, initial, required])).toEqual([
    ['region', 'text', '', true],
    ['size', 'choice', 'small', true],
    ['diskSizeGB', 'number', '20', false],
    ['isFast', 'boolean', '', false],
    ['tags', 'list', '', false],
  ]);
  expect(fieldsOf({ name: 'bare', displayName: '' })).toEqual([]);
});

test('required fields, set fields and failed fields are the first', () => {
  const { first, rest } = firstFields(fieldsOf(driver), new Set(['tags']), (name) => name === 'isFast');
  expect(first.map(({ name }) => name)).toEqual(['region', 'size', 'isFast', 'tags']);
  expect(rest.map(({ name }) => name)).toEqual(['diskSizeGB']);
});

test.each([
  ['instanceType', 'Instance type'],
  ['diskSizeGB', 'Disk size GB'],
  ['vpcId', 'VPC ID'],
  ['sshUser', 'SSH user'],
])('the field %s is called "%s"', (name, want) => {
  expect(labelOf(name)).toBe(want);
});

test('a cluster can use credentials of its driver, from its namespace and from the shared one', () => {
  const item = (namespace: string, name: string, of = 'cloud') => ({ namespace, name, displayName: '', driver: of });
  const items = [
    item('team-a', 'own'),
    item('cattle-global-data', 'shared', 'Cloud'),
    item('team-b', 'theirs'),
    item('team-a', 'other', 'azure'),
  ];
  expect(credentialChoices(items, 'cloud', 'team-a').map(({ value }) => value)).toEqual([
    'own',
    'cattle-global-data:shared',
  ]);
});

const clusters = ['v1.9.1+rke2r1', 'v1.36.2+rke2r1', 'v1.36.2+k3s1', 'v1.36.2+rke2r1', 'v1.35.0'].map(
  (version): Cluster => ({ namespace: 'a', name: version, state: 'Ready', version, created: '' }),
);

test('suggested versions run here, the newest first, and then come the known minors', () => {
  expect(runningVersions(clusters, 'rke2')).toEqual(['v1.36.2+rke2r1', 'v1.9.1+rke2r1']);
  const releases = { k3s: ['1.35', '1.36'], rke2: null, networks: null };
  expect(versionSuggestions(['v1.36.2+k3s1'], releases, 'k3s')).toEqual(['v1.36.2+k3s1', 'v1.36.', 'v1.35.']);
  expect(versionSuggestions([], undefined, 'rke2')).toEqual([]);
});

test('a version of another distribution makes room for one that runs here', () => {
  expect(versionFor('v1.36.2+rke2r1', 'k3s', ['v1.35.1+k3s1'])).toBe('v1.35.1+k3s1');
  expect(versionFor('v1.36.2+rke2r1', 'k3s', [])).toBe('');
  expect(versionFor('v1.34.0+k3s1', 'k3s', ['v1.35.1+k3s1'])).toBe('v1.34.0+k3s1');
});

test.each([
  ['name', 'name'],
  ['pools[1].config.size', 'pools[1].config.size'],
  ['metadata.name', 'name'],
  ['spec.kubernetesVersion', 'version'],
  ['spec.rkeConfig.machinePools[2].quantity', 'pools[2].size'],
  ['spec.rkeConfig.machinePools[0].etcdRole', 'pools[0].roles'],
  ['spec.rkeConfig.machinePools[0].drainBeforeDelete', undefined],
  ['spec.rkeConfig.chartValues', undefined],
])('%s is at the field %s', (path, want) => {
  expect(formField(path)).toBe(want);
});

test('a problem is at its field, or in the list', () => {
  const problems = [
    { field: 'name', message: 'too long' },
    { field: 'metadata.name', message: 'no capitals' },
    { field: 'spec.rkeConfig', message: 'odd', line: 4 },
    { message: 'refused' },
  ];
  expect(placeProblems(problems)).toEqual({ errors: { name: 'too long' }, others: [problems[2], problems[3]] });
});

test('an error waits until the user leaves its field, or wants to go on', () => {
  const errors = { name: 'a', version: 'b' };
  expect(visibleErrors(errors, new Set(['name']), false)).toEqual({ name: 'a' });
  expect(visibleErrors(errors, new Set(), true)).toEqual(errors);
});

test('a new pool has a free name', () => {
  const first = newPool([]);
  const second = newPool([first]);
  expect([first, second, newPool([first, second])].map(({ id, name }) => [id, name])).toEqual([
    [1, 'servers'],
    [2, 'workers'],
    [3, 'workers2'],
  ]);
});
