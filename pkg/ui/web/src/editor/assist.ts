import {
  autocompletion,
  completionKeymap,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { StateEffect, StateField, type EditorState, type Extension } from '@codemirror/state';
import { hoverTooltip, keymap, type EditorView } from '@codemirror/view';
import type { Schema } from '../api/types';
import { contextAt, readLine } from './context';
import { fieldsAt, insertOf, schemaAt, typeOf, valuesAt, type Field } from './schema';

/** Gives the editor the schema, which arrives after the text. */
export const setSchema = StateEffect.define<Schema | undefined>();

const schemaField = StateField.define<Schema | undefined>({
  create: () => undefined,
  update: (old, transaction) =>
    transaction.effects.reduce<Schema | undefined>((now, effect) => (effect.is(setSchema) ? effect.value : now), old),
});

/** What the text says at a position, by the schema. */
function placeAt(state: EditorState, position: number) {
  const schema = state.field(schemaField, false);
  if (!schema) return undefined;
  const line = state.doc.lineAt(position);
  const context = contextAt(state.doc.toString(), line.number - 1, position - line.from);
  return context && { schema, context, line };
}

function completionOf(field: Field, column: number, hasRest: boolean): Completion {
  return {
    label: field.name,
    apply: hasRest ? field.name : insertOf(field, column),
    detail: typeOf(field.schema, field.required),
    info: field.schema.description,
    type: 'property',
    boost: field.required ? 1 : 0,
  };
}

/** Completes keys and values from the schema of the Cluster. */
function complete({ state, pos, explicit }: CompletionContext): CompletionResult | null {
  const place = placeAt(state, pos);
  if (!place) return null;
  const { schema, context, line } = place;
  const from = line.from + context.from;
  if (!explicit && context.what === 'key' && from === pos) return null;
  const hasRest = state.sliceDoc(pos, line.to).includes(':');
  const options =
    context.what === 'value'
      ? valuesAt(schema, context.path).map((label): Completion => ({ label, type: 'constant' }))
      : fieldsAt(schema, context.path)
          .filter(({ name }) => !context.siblings.includes(name))
          .map((field) => completionOf(field, context.column, hasRest));
  return options.length ? { from, options, validFor: /^[\w./-]*$/ } : null;
}

/** What the editor says about a field. */
export interface FieldHelp {
  path: string;
  type: string;
  description?: string;
}

/** The field on the line of a position, if the schema knows it. */
export function helpAt(state: EditorState, position: number): FieldHelp | undefined {
  const line = state.doc.lineAt(position);
  const content = readLine(line.text);
  if (content?.key === undefined) return undefined;
  const place = placeAt(state, line.from + content.column);
  if (!place) return undefined;
  const path = [...place.context.path, content.key];
  const schema = schemaAt(place.schema, path);
  if (!schema) return undefined;
  const isRequired = schemaAt(place.schema, place.context.path)?.required?.includes(content.key);
  return {
    path: path.join('.').replaceAll('.[]', '[]'),
    type: typeOf(schema, isRequired),
    description: schema.description,
  };
}

function show(view: EditorView, position: number) {
  const help = helpAt(view.state, position);
  if (!help?.description) return null;
  const dom = document.createElement('div');
  dom.className = 'field-hover';
  dom.textContent = `${help.description} (${help.type})`;
  return { pos: view.state.doc.lineAt(position).from, create: () => ({ dom }) };
}

/** Completion, and descriptions of fields. The key Tab stays free, so that it leaves the editor. */
export const assistance: Extension = [
  schemaField,
  autocompletion({ override: [complete], icons: false, defaultKeymap: false }),
  keymap.of(completionKeymap),
  hoverTooltip(show),
];
