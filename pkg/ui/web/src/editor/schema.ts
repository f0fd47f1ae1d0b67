import type { Schema } from '../api/types';
import { entry } from './context';

/** A field that a schema allows. */
export interface Field {
  name: string;
  schema: Schema;
  required: boolean;
}

/** CRDs say nothing about metadata. */
const metadata: Schema = {
  type: 'object',
  properties: {
    name: { type: 'string', description: 'Name of the object. It is unique in the namespace.' },
    namespace: { type: 'string', description: 'Namespace of the object.' },
    labels: { type: 'object', description: 'Labels of the object.', additionalProperties: { type: 'string' } },
    annotations: {
      type: 'object',
      description: 'Annotations of the object.',
      additionalProperties: { type: 'string' },
    },
  },
};

/** The schema at a path, undefined if the schema does not know the path. */
export function schemaAt(root: Schema, path: readonly string[]): Schema | undefined {
  let schema: Schema | undefined = root;
  for (const [at, key] of path.entries()) {
    if (at === 0 && key === 'metadata') schema = metadata;
    else if (key === entry) schema = schema.items;
    else schema = schema.properties?.[key] ?? additional(schema);
    if (!schema) return undefined;
  }
  return schema;
}

const additional = ({ additionalProperties }: Schema) =>
  typeof additionalProperties === 'object' ? additionalProperties : undefined;

/** The fields of a map. Users do not write a status. */
export function fieldsAt(root: Schema, path: readonly string[]): Field[] {
  const schema = schemaAt(root, path);
  return Object.entries(schema?.properties ?? {})
    .filter(([name]) => path.length > 0 || name !== 'status')
    .map(([name, field]) => ({ name, schema: field, required: schema?.required?.includes(name) ?? false }));
}

/** The values that a field can have, if they are few. */
export function valuesAt(root: Schema, path: readonly string[]): string[] {
  const schema = schemaAt(root, path);
  if (schema?.enum) return schema.enum.map(String).filter((value) => value !== '' && value !== 'null');
  return schema?.type === 'boolean' ? ['true', 'false'] : [];
}

/** What a field takes: its type, its default, and whether it is required. */
export function typeOf({ type, items, default: byDefault, enum: values }: Schema, required = false): string {
  const kind = values
    ? values.filter(Boolean).join(' | ')
    : type === 'array'
      ? `list of ${items?.type ?? 'values'}`
      : type;
  const parts = [kind, required && 'required', byDefault !== undefined && `default ${JSON.stringify(byDefault)}`];
  return parts.filter(Boolean).join(', ');
}

/** What follows the name of a field. Maps and lists begin on the next line. */
export function insertOf({ name, schema }: Field, column: number): string {
  const indent = ' '.repeat(column);
  if (schema.type === 'object') return `${name}:\n${indent}  `;
  if (schema.type === 'array') return `${name}:\n${indent}  - `;
  return `${name}: `;
}
