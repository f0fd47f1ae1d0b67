import { history, historyKeymap, standardKeymap } from '@codemirror/commands';
import { HighlightStyle, foldGutter, foldKeymap, syntaxHighlighting } from '@codemirror/language';
import { yaml } from '@codemirror/lang-yaml';
import { search, searchKeymap } from '@codemirror/search';
import { Annotation, EditorState, Transaction } from '@codemirror/state';
import { EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { Button } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { useObjectText } from '../../api/queries';
import { ChangePanel } from '../../change/ChangePanel';
import { useChange } from '../../change/useChange';
import { Failure } from '../../components/Notice';
import { styleNonce } from '../../theme';
import type { ClusterName } from './ClusterPage';
import { Placeholder } from './OverviewTab';

/** Marks texts that the user did not type. */
const fromServer = Annotation.define<boolean>();

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
  '&.cm-focused': { outline: '2px solid var(--busy)', outlineOffset: '2px' },
});

const extensions = [
  lineNumbers(),
  foldGutter(),
  yaml(),
  syntaxHighlighting(colours),
  look,
  search({ top: true }),
  // The key Tab leaves the editor, so that a keyboard user is not caught in it.
  keymap.of([...searchKeymap, ...foldKeymap, ...historyKeymap, ...standardKeymap]),
  EditorView.lineWrapping,
  EditorView.cspNonce.of(styleNonce),
  history(),
  EditorView.contentAttributes.of({ 'aria-label': 'Manifest', tabindex: '0' }),
];

/** The manifest of the cluster. A user can edit it to see what a change would do. */
export default function YamlTab({ namespace, name }: ClusterName) {
  const { data, error, refetch } = useObjectText('clusters', namespace, name, 'manifest');
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const [edited, setEdited] = useState(false);
  const [editable, setEditable] = useState(false);
  const change = useChange({ namespace, name });
  const loaded = data !== undefined;
  useEffect(() => {
    if (!loaded || !box.current) return;
    const edits = EditorView.updateListener.of((update) => {
      if (update.docChanged) setEdited(!update.transactions.some((t) => t.annotation(fromServer)));
    });
    const may = [EditorState.readOnly.of(!editable), EditorView.editable.of(editable)];
    view.current = new EditorView({ extensions: [...extensions, ...may, edits], parent: box.current });
    if (editable) view.current.focus();
    return () => view.current?.destroy();
  }, [loaded, editable]);
  const show = (text = '') =>
    view.current?.dispatch({
      changes: { from: 0, to: view.current.state.doc.length, insert: text },
      annotations: [fromServer.of(true), Transaction.addToHistory.of(false)],
    });
  useEffect(() => {
    // An edit stays when the Cluster changes.
    if (!edited && data !== view.current?.state.doc.toString()) show(data);
  }, [data, edited, editable]);
  if (!loaded) return error ? <Failure error={error} retry={refetch} /> : <Placeholder lines={12} />;
  const read = () => view.current?.state.doc.toString() ?? '';
  const leave = () => {
    show(data);
    change.reset();
    setEditable(false);
  };
  return (
    <>
      {editable ? (
        <ChangePanel
          change={change}
          text={edited ? read() : undefined}
          extra={
            <Button variant="default" onClick={leave}>
              Discard the edit
            </Button>
          }
        />
      ) : (
        <Button variant="default" onClick={() => setEditable(true)}>
          Edit
        </Button>
      )}
      <div className="card yaml" ref={box} />
    </>
  );
}
