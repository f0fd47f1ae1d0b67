import { history, historyKeymap, standardKeymap } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { foldGutter, foldKeymap, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { search, searchKeymap } from '@codemirror/search';
import { Annotation, Compartment, EditorState, Transaction, type Extension, type Text } from '@codemirror/state';
import { EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useImperativeHandle, useRef, useState, type Ref } from 'react';
import type { Problem, Schema } from '../api/types';
import { styleNonce } from '../theme';
import { assistance, helpAt, setSchema, type FieldHelp } from './assist';
import './editor.css';

export interface EditorHandle {
  /** Shows a place of the text, and moves the cursor there. */
  jump: (line: number, column?: number) => void;
  focus: () => void;
}

interface Props {
  value: string;
  /** Called for each edit of the user. */
  onChange?: (text: string) => void;
  /** Problems with a line are marked there. */
  problems?: Problem[];
  /** The schema of a Cluster, for completion and descriptions. */
  schema?: Schema;
  readOnly?: boolean;
  label?: string;
  ref?: Ref<EditorHandle>;
}

/** Marks texts that the user did not type. */
const fromPage = Annotation.define<boolean>();

// The colours are variables, so the view follows a change of the colour scheme.
const colours = HighlightStyle.define([
  { tag: tags.definition(tags.propertyName), color: 'var(--busy)' },
  { tag: tags.propertyName, color: 'var(--busy)' },
  { tag: [tags.string, tags.content], color: 'var(--text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--paused)' },
  { tag: [tags.lineComment, tags.meta], color: 'var(--dim)' },
]);

const look = EditorView.theme({
  '&': { fontSize: '12.5px', backgroundColor: 'transparent', color: 'var(--text)' },
  '.cm-scroller': { fontFamily: 'var(--mono)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--dim)', border: 'none' },
  '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused': { outline: '2px solid var(--busy)', outlineOffset: '2px' },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', color: 'var(--text)', border: '1px solid var(--border-strong)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    backgroundColor: 'var(--busy)',
    color: 'var(--surface)',
  },
  '.cm-completionDetail': { fontStyle: 'normal', opacity: '0.75' },
});

const extensions: Extension = [
  lineNumbers(),
  foldGutter(),
  lintGutter(),
  yaml(),
  syntaxHighlighting(colours),
  look,
  search({ top: true }),
  assistance,
  // The key Tab leaves the editor, so that a keyboard user is not caught in it.
  keymap.of([...searchKeymap, ...foldKeymap, ...historyKeymap, ...standardKeymap]),
  EditorView.lineWrapping,
  EditorView.cspNonce.of(styleNonce),
  history(),
];

/** An editor for manifests: completion from the schema, marks at problems, and help about the field at the cursor. */
export function YamlEditor({ value, onChange, problems, schema, readOnly = false, label = 'Manifest', ref }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const [may] = useState(() => new Compartment());
  const [help, setHelp] = useState<FieldHelp>();
  const listener = useRef(onChange);
  listener.current = onChange;
  useEffect(() => {
    const follow = EditorView.updateListener.of((update) => {
      const isTyped = update.docChanged && !update.transactions.some((t) => t.annotation(fromPage));
      if (isTyped) listener.current?.(update.state.doc.toString());
      if (update.docChanged || update.selectionSet || update.focusChanged)
        setHelp(helpAt(update.state, update.state.selection.main.head));
    });
    const name = EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' });
    const all = [extensions, name, may.of(permission(readOnly)), follow];
    view.current = new EditorView({ doc: value, extensions: all, parent: box.current! });
    return () => view.current?.destroy();
  }, [label]);
  useEffect(() => {
    view.current?.dispatch({ effects: may.reconfigure(permission(readOnly)) });
  }, [may, readOnly]);
  useEffect(() => {
    view.current?.dispatch({ effects: setSchema.of(schema) });
  }, [schema]);
  useEffect(() => {
    if (view.current) replace(view.current, value);
  }, [value]);
  useEffect(() => {
    const { current } = view;
    if (current) current.dispatch(setDiagnostics(current.state, marksOf(problems ?? [], current.state.doc)));
  }, [problems]);
  useImperativeHandle(ref, () => ({
    jump: (line, column) => view.current && jump(view.current, line, column),
    focus: () => view.current?.focus(),
  }));
  return (
    <div className="yaml-editor">
      <div className="card yaml" ref={box} />
      <p className="field-help dim">
        {help ? (
          <>
            <b>{help.path}</b> {help.type && `(${help.type})`} {help.description}
          </>
        ) : (
          !readOnly && 'Ctrl+Space completes a key or a value. Tab leaves the editor.'
        )}
      </p>
    </div>
  );
}

const permission = (readOnly: boolean): Extension => [
  EditorState.readOnly.of(readOnly),
  EditorView.editable.of(!readOnly),
];

/** Shows another text, without a step in the history. */
function replace(view: EditorView, text: string) {
  if (view.state.doc.toString() === text) return;
  view.dispatch({
    changes: { from: 0, to: view.state.doc.length, insert: text },
    annotations: [fromPage.of(true), Transaction.addToHistory.of(false)],
  });
}

function jump(view: EditorView, line: number, column = 1) {
  const found = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
  const at = Math.min(found.from + column - 1, found.to);
  view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) });
  view.focus();
}

/** The marks of problems that have a line. */
function marksOf(problems: Problem[], text: Text): Diagnostic[] {
  return problems
    .filter((problem) => problem.line && problem.line <= text.lines)
    .map(({ line, column = 1, message }): Diagnostic => {
      const found = text.line(line!);
      const start = found.from + (found.text.length - found.text.trimStart().length);
      const from = Math.min(Math.max(start, found.from + column - 1), found.to);
      return { from, to: found.to, severity: 'error', message };
    })
    .sort((a, b) => a.from - b.from);
}
