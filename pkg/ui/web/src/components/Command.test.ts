import { expect, test } from 'vitest';
import { parseRemedy, sentence } from './Command';

test.each([
  ['free space on the disk of the host', { text: 'free space on the disk of the host' }],
  [
    'see its log on the host: journalctl -u rancher-system-agent',
    { text: 'see its log on the host', command: 'journalctl -u rancher-system-agent' },
  ],
  [
    'see the logs: kubectl -n drover-system logs deploy/drover, or the output of the server',
    {
      text: 'see the logs',
      command: 'kubectl -n drover-system logs deploy/drover',
      rest: 'or the output of the server',
    },
  ],
])('%s', (remedy, want) => {
  expect(parseRemedy(remedy)).toEqual({ command: undefined, rest: undefined, ...want });
});

test.each([
  ['waiting for hosts', 'Waiting for hosts'],
  ["the node's kubelet", "The node's kubelet"],
  ['spec.kubernetesVersion: unknown', 'spec.kubernetesVersion: unknown'],
  ['etcd-0 does not answer', 'etcd-0 does not answer'],
])('"%s" is shown as "%s"', (text, want) => {
  expect(sentence(text)).toBe(want);
});
