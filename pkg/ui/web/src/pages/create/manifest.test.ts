import { expect, test } from 'vitest';
import { targetOf } from './manifest';

const config = 'apiVersion: rke-machine-config.cattle.io/v1\nkind: CloudConfig\nmetadata: {name: pool}\n';
const cluster = 'kind: Cluster # of two\nmetadata:\n  labels: {name: no}\n  name: demo\n  namespace: team-a\n';

test.each([
  ['one document', cluster, { namespace: 'team-a', name: 'demo' }],
  ['a machine config first', `${config}---\n${cluster}`, { namespace: 'team-a', name: 'demo' }],
  ['no namespace', 'kind: Cluster\nmetadata: {name: demo}', { namespace: 'default', name: 'demo' }],
  ['YAML that breaks later', `${cluster}spec:\n  a: [1,\n`, { namespace: 'team-a', name: 'demo' }],
  ['no name', 'kind: Cluster\nmetadata: {}\n', undefined],
  ['no Cluster', config, undefined],
  ['no YAML', 'a: b: c: [', undefined],
  ['nothing', '', undefined],
])('%s', (_, text, want) => {
  expect(targetOf(text)).toEqual(want);
});
