import { Button, TextInput } from '@mantine/core';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { messageOf } from '../api/client';
import { sentence } from '../components/Command';
import { Dialog } from '../components/Dialog';
import { Failure, Notice } from '../components/Notice';
import { loadManifest, type Manifest, type PreviewAnswer, type Target } from './api';
import { ChangePanel } from './ChangePanel';
import { Diff } from './Diff';
import { goneOf, outdatedOf } from './effects';
import { useChange, type Change } from './useChange';

interface Props {
  title: string;
  target: Target;
  /** The form. A function gets the manifest that the form is about. */
  children?: ReactNode | ((manifest: string) => ReactNode);
  /** Makes the text to write from the live manifest. It throws an Error with a sentence if the form is not complete. */
  makeText: (manifest: string) => string;
  onClose: () => void;
  onApplied?: (written: string[]) => void;
  applyLabel?: string;
  /** A text that the user must type before the change can be applied, for example the name of the cluster. */
  confirm?: string;
  /** Says for an answer of the server why the change makes no sense. */
  refuse?: (answer: PreviewAnswer) => string | undefined;
}

/** How often the dialog reads the manifest again, because it changed between reading and preview. */
const mostReads = 3;

/** A form over the one way to change a cluster: a text from the manifest, its preview, and one write. */
export function ChangeDialog(props: Props) {
  const { title, target, children, makeText, onClose, onApplied, applyLabel, confirm, refuse } = props;
  const change = useChange(target);
  const { manifest, error, read } = useManifest(target);
  const [typed, setTyped] = useState('');
  const { busy, run } = useOneRun(() => previewFresh(change, read, makeText));
  const { text, problem } = attempt(manifest?.text, makeText);
  // What the user has confirmed is one text. Another one needs another confirmation.
  useEffect(() => setTyped(''), [text]);
  const refusal = refusalOf(change.answer, manifest, refuse);
  const isDone = change.phase === 'applied';
  return (
    <Dialog title={title} onClose={onClose} busy={change.phase === 'applying'} wide>
      {!manifest && error === undefined && <Reading />}
      {error !== undefined && <Failure error={error} retry={() => void read()} />}
      {manifest && (
        <>
          <fieldset className="change-form" disabled={change.phase === 'applying' || isDone}>
            <legend className="visually-hidden">{title}</legend>
            {typeof children === 'function' ? children(manifest.text) : children}
          </fieldset>
          {!isDone && text === manifest.text && <p className="dim">The cluster already has these values.</p>}
          {problem && <Notice tone="off">{problem}</Notice>}
          <ChangePanel
            change={change}
            text={text}
            onPreview={() => void run()}
            busy={busy}
            onApplied={onApplied}
            applyLabel={applyLabel}
            disabled={isDone || text === manifest.text}
            unconfirmed={!!refusal || (!!confirm && typed !== confirm)}
            extra={isDone && <Button onClick={onClose}>Close</Button>}
          >
            {refusal && <Notice tone="bad">{refusal}</Notice>}
            {confirm && !refusal && <Confirmation confirm={confirm} typed={typed} onType={setTyped} />}
          </ChangePanel>
          {text !== undefined && !isDone && <Difference before={manifest.text} after={text} />}
        </>
      )}
    </Dialog>
  );
}

/** Says why the answer to a preview must not be applied. */
function refusalOf(answer: PreviewAnswer | undefined, manifest: Manifest | undefined, refuse: Props['refuse']) {
  if (!answer || !manifest) return undefined;
  return goneOf(answer) ?? outdatedOf(answer, manifest.seen) ?? refuse?.(answer);
}

/** Makes the text, or says why the form has none. */
function attempt(manifest: string | undefined, makeText: Props['makeText']): { text?: string; problem?: string } {
  if (manifest === undefined) return {};
  try {
    return { text: makeText(manifest) };
  } catch (error) {
    return { problem: sentence(messageOf(error)) };
  }
}

/** Previews the form on the manifest of this moment, so that a write undoes no edit of someone else. */
async function previewFresh(change: Change, read: () => Promise<Manifest | undefined>, makeText: Props['makeText']) {
  for (let i = 0; i < mostReads; i++) {
    const manifest = await read();
    if (!manifest) return;
    const { text } = attempt(manifest.text, makeText);
    if (text === undefined) return;
    const answer = await change.preview(text);
    if (!answer?.seen || !manifest.seen || answer.seen === manifest.seen) return;
  }
}

/** Runs something once at a time. A button that looks busy still takes a key. */
function useOneRun(what: () => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const isRunning = useRef(false);
  const run = async () => {
    if (isRunning.current) return;
    isRunning.current = true;
    setBusy(true);
    try {
      await what();
    } finally {
      isRunning.current = false;
      setBusy(false);
    }
  };
  return { busy, run };
}

function Reading() {
  return (
    <p className="dim" role="status">
      Reading the manifest …
    </p>
  );
}

function useManifest({ namespace, name }: Target) {
  const [manifest, setManifest] = useState<Manifest>();
  const [error, setError] = useState<unknown>();
  const read = async (signal?: AbortSignal) => {
    try {
      const next = await loadManifest({ namespace, name }, signal);
      setManifest(next);
      setError(undefined);
      return next;
    } catch (reason) {
      if (!signal?.aborted) setError(reason);
      return undefined;
    }
  };
  useEffect(() => {
    const abort = new AbortController();
    void read(abort.signal);
    return () => abort.abort();
  }, [namespace, name]);
  return { manifest, error, read: () => read() };
}

interface ConfirmationProps {
  confirm: string;
  typed: string;
  onType: (text: string) => void;
  disabled?: boolean;
}

/** A field for a text that a user must type before something that cannot be undone. */
export function Confirmation({ confirm, typed, onType, disabled }: ConfirmationProps) {
  return (
    <TextInput
      label={
        <>
          Type <b>{confirm}</b> to confirm
        </>
      }
      value={typed}
      onChange={(event) => onType(event.currentTarget.value)}
      disabled={disabled}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

function Difference({ before, after }: { before: string; after: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Difference of the manifest</summary>
      {isOpen && <Diff before={before} after={after} />}
    </details>
  );
}
