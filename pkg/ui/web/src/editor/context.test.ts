import { expect, test } from 'vitest';
import { contextAt } from './context';

/** Reads the position from a bar in the text. */
function at(text: string) {
  const before = text.slice(0, text.indexOf('|')).split('\n');
  return contextAt(text.replace('|', ''), before.length - 1, before.at(-1)!.length);
}

const cluster = (rest: string) => `apiVersion: provisioning.cattle.io/v1\nkind: Cluster\n${rest}`;

test.each([
  ['the root', 'sp|', []],
  ['a map', 'spec:\n  kub|', ['spec']],
  ['an empty line', 'spec:\n  |', ['spec']],
  ['a map below a blank line and a comment', 'spec:\n\n  # text\n  a: 1\n  kub|', ['spec']],
  ['a deep map', 'spec:\n  rkeConfig:\n    etcd:\n      sn|\n  x: 1', ['spec', 'rkeConfig', 'etcd']],
  ['after a deeper map', 'spec:\n  rkeConfig:\n    a: 1\n  k|', ['spec']],
  ['the first key of an entry', 'spec:\n  pools:\n    - na|', ['spec', 'pools', '[]']],
  ['another key of an entry', 'spec:\n  pools:\n    - name: a\n      q|', ['spec', 'pools', '[]']],
  ['a list without indent', 'spec:\n  pools:\n  - name: a\n    q|', ['spec', 'pools', '[]']],
  ['a second entry', 'spec:\n  pools:\n  - name: a\n    x: 1\n  - q|', ['spec', 'pools', '[]']],
  ['after a list', 'spec:\n  pools:\n  - name: a\n  q|', ['spec']],
  ['a map of an entry', 'spec:\n  pools:\n  - name: a\n    ref:\n      k|', ['spec', 'pools', '[]', 'ref']],
  ['a quoted key', 'spec:\n  "pools":\n    x|', ['spec', 'pools']],
])('a key in %s', (_, text, path) => {
  expect(at(cluster(text))).toMatchObject({ what: 'key', path });
});

test('a value belongs to its key', () => {
  expect(at(cluster('spec:\n  pools:\n  - name: a\n    etcdRole: tr|'))).toMatchObject({
    what: 'value',
    path: ['spec', 'pools', '[]', 'etcdRole'],
    from: 14,
  });
  expect(at(cluster('spec:\n  a: |'))).toMatchObject({ what: 'value', path: ['spec', 'a'], from: 5 });
});

test('the keys beside the typed key are known', () => {
  const text = 'spec:\n  pools:\n  - x: 1\n  - a: 1\n    b:\n      c: 1\n    |\n    d: 1\n  - e: 1\n  f: 1';
  expect(at(cluster(text))?.siblings.toSorted()).toEqual(['a', 'b', 'd']);
  expect(at(cluster('spec:\n  a: 1\n  b|'))?.siblings).toEqual(['a']);
});

test.each([
  ['a comment', cluster('spec:\n  # kub|')],
  ['another kind', 'kind: Amazonec2Config\nmeta|'],
  ['another document', `${cluster('spec: {}')}\n---\nkind: Other\nx|`],
  ['the end of a key', cluster('spec:|')],
])('%s has no context', (_, text) => {
  expect(at(text)).toBeUndefined();
});

test('the Cluster can be the second document', () => {
  expect(at(`kind: Other\n---\n${cluster('spec:\n  k|')}`)?.path).toEqual(['spec']);
});
