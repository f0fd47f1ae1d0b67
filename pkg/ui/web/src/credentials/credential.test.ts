import { expect, test } from 'vitest';
import { checkValues, credentialFields, fieldOfProblem, shownEntries, valuesOf } from './credential';

const fields = [
  { name: 'url', type: 'string', secret: false, required: false },
  { name: 'token', type: 'string', secret: true, required: true },
];

test('required fields come first', () => {
  expect(credentialFields(fields).map(({ name }) => name)).toEqual(['token', 'url']);
});

test('spaces belong to a value, and an empty value is none', () => {
  const entries = [
    { key: ' token ', value: ' a ' },
    { key: 'url', value: '' },
    { key: '', value: 'x' },
  ];
  expect(valuesOf(entries)).toEqual({ token: ' a ' });
});

test('a form sends only the values that it shows', () => {
  const entries = [
    { key: 'token', value: 'a' },
    { key: 'former', value: 'b' },
  ];
  expect(shownEntries(fields, entries)).toEqual([{ key: 'token', value: 'a' }]);
  expect(shownEntries(undefined, entries)).toEqual(entries);
  expect(shownEntries([], entries)).toEqual(entries);
});

test.each([
  ['a missing value', [{ key: 'url', value: 'x' }], { token: 'The driver requires this value.' }],
  ['all values', [{ key: 'token', value: 'x' }], {}],
])('%s', (_, entries, want) => {
  expect(checkValues(fields, entries)).toEqual(want);
});

test('without known fields, a credential needs any value, and each name once', () => {
  expect(checkValues(undefined, [])).toEqual({ '': 'A credential needs a value.' });
  const twice = [
    { key: 'a', value: '1' },
    { key: 'a', value: '2' },
  ];
  expect(checkValues(undefined, twice)).toEqual({ '': 'Two values have the same name.' });
});

test.each([
  ['values.token', 'token'],
  ['values[token]', 'token'],
  ['values["a.b"]', 'a.b'],
  ['displayName', 'displayName'],
  [undefined, ''],
])('the problem of %s is at %s', (field, want) => {
  expect(fieldOfProblem(field)).toBe(want);
});
