import { expect, test } from 'vitest';
import type { Schema } from '../api/types';
import { fieldsAt, insertOf, schemaAt, typeOf, valuesAt } from './schema';

const pool: Schema = {
  type: 'object',
  required: ['name'],
  properties: { name: { type: 'string' }, etcdRole: { type: 'boolean', default: false } },
};
const root: Schema = {
  type: 'object',
  properties: {
    kind: { type: 'string' },
    metadata: { type: 'object' },
    status: { type: 'object' },
    spec: {
      type: 'object',
      properties: {
        pools: { type: 'array', items: pool },
        mode: { type: 'string', enum: ['', 'a', 'b'] },
        labels: { type: 'object', additionalProperties: { type: 'boolean' } },
      },
    },
  },
};
const names = (path: string[]) => fieldsAt(root, path).map((field) => field.name);

test('fields of maps, of entries of lists, and of metadata', () => {
  expect(names([])).toEqual(['kind', 'metadata', 'spec']);
  expect(names(['spec', 'pools', '[]'])).toEqual(['name', 'etcdRole']);
  expect(names(['metadata'])).toContain('labels');
  expect(names(['spec', 'gone', 'x'])).toEqual([]);
  expect(fieldsAt(root, ['spec', 'pools', '[]']).map((field) => field.required)).toEqual([true, false]);
});

test('values of enumerations and booleans', () => {
  expect(valuesAt(root, ['spec', 'mode'])).toEqual(['a', 'b']);
  expect(valuesAt(root, ['spec', 'pools', '[]', 'etcdRole'])).toEqual(['true', 'false']);
  expect(valuesAt(root, ['spec', 'labels', 'any'])).toEqual(['true', 'false']);
  expect(valuesAt(root, ['kind'])).toEqual([]);
});

test('the type of a field is a short text', () => {
  expect(typeOf(schemaAt(root, ['spec', 'pools'])!)).toBe('list of object');
  expect(typeOf(schemaAt(root, ['spec', 'mode'])!)).toBe('a | b');
  expect(typeOf(pool.properties!.etcdRole!, true)).toBe('boolean, required, default false');
});

test('a completed key leads to its value', () => {
  const [name] = fieldsAt(root, ['spec', 'pools', '[]']);
  expect(insertOf(name!, 4)).toBe('name: ');
  expect(insertOf({ name: 'pools', schema: { type: 'array' }, required: false }, 2)).toBe('pools:\n    - ');
  expect(insertOf({ name: 'spec', schema: { type: 'object' }, required: false }, 0)).toBe('spec:\n  ');
});
