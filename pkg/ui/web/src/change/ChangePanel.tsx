import { Button } from '@mantine/core';
import { useEffect, useRef, type ReactNode } from 'react';
import { ApiError, messageOf } from '../api/client';
import { sentence } from '../components/Command';
import { Notice } from '../components/Notice';
import { announce } from '../lib/announce';
import type { Problem } from './api';
import { Effect } from './Effect';
import { summaryOf } from './effects';
import type { Change } from './useChange';
import './change.css';

interface Props {
  change: Change;
  /** The text that would be written. It is undefined while the form has no text. */
  text?: string;
  /** Asks for the preview. Without it, the panel previews the text. */
  onPreview?: () => void;
  onApplied?: (written: string[]) => void;
  /** Shows a line of the text. */
  onJump?: (line: number, column?: number) => void;
  applyLabel?: string;
  /** True while the page prepares the preview. */
  busy?: boolean;
  /** Why nothing can be previewed yet. */
  disabled?: boolean;
  /** Why the change cannot be applied yet, for example a missing confirmation. */
  unconfirmed?: boolean;
  /** More buttons. */
  extra?: ReactNode;
  /** What the user must do between preview and apply. */
  children?: ReactNode;
}

/** Previews a text, shows the answer, and applies it. Every page that changes a cluster uses it. */
export function ChangePanel(props: Props) {
  const {
    change,
    text,
    onPreview,
    onApplied,
    applyLabel = 'Apply',
    busy,
    disabled,
    unconfirmed,
    extra,
    children,
  } = props;
  useAnnouncement(change);
  useApplied(change, onApplied);
  const { phase } = change;
  const isPreparing = busy || phase === 'previewing';
  const canApply = text !== undefined && change.canApply(text);
  return (
    <div className="change">
      <div className="change-bar">
        <Button
          variant={canApply ? 'default' : 'filled'}
          onClick={() => (onPreview ? onPreview() : text !== undefined && void change.preview(text))}
          loading={isPreparing}
          disabled={disabled || text === undefined || phase === 'applying'}
        >
          Preview
        </Button>
        <Button
          onClick={() => text !== undefined && void change.apply(text)}
          loading={phase === 'applying'}
          disabled={!canApply || unconfirmed || isPreparing || phase === 'applying'}
        >
          {applyLabel}
        </Button>
        {extra}
      </div>
      {/* Beside the buttons, because an answer can be long. */}
      {canApply && !busy && children}
      <Answer {...props} />
    </div>
  );
}

function Answer({ change, text, onJump }: Props) {
  const { answer, error, phase, unknown, written } = change;
  const isStale = text !== change.text || phase === 'previewing';
  return (
    <div className="change-answer" data-stale={(answer && isStale) || undefined}>
      {phase === 'applied' && <Applied written={written} />}
      {error !== undefined && <Refusal error={error} unknown={unknown} hasProblems={!!answer?.problems?.length} />}
      {error === undefined && unknown && <MayHaveHappened />}
      {phase !== 'applied' && answer && (
        <>
          {isStale && <p className="dim">This is the effect of an earlier text. Preview again.</p>}
          <Problems problems={answer.problems} onJump={onJump} />
          {answer.notes?.map((note) => (
            <p key={note} className="dim">
              {sentence(note)}
            </p>
          ))}
          {answer.report && <Effect report={answer.report} />}
        </>
      )}
    </div>
  );
}

function Applied({ written }: { written?: string[] }) {
  return (
    <Notice tone="good">
      {written?.length ? `Written: ${written.join(', ')}.` : 'Nothing differed, so nothing was written.'}
    </Notice>
  );
}

function MayHaveHappened() {
  return (
    <Notice tone="warn">
      The last write got no answer. It may have taken effect. Preview again to see what still differs.
    </Notice>
  );
}

function Refusal({ error, unknown, hasProblems }: { error: unknown; unknown: boolean; hasProblems: boolean }) {
  const message = sentence(messageOf(error));
  if (unknown)
    return (
      <Notice tone="bad">
        {message} The write may have taken effect. Drover does not send it again. Preview again to see what still
        differs.
      </Notice>
    );
  if (error instanceof ApiError && error.status === 412)
    return (
      <Notice tone="warn">
        The cluster has changed since the preview. Nothing was written. Preview again to see the effect on the cluster
        as it is now.
      </Notice>
    );
  if (error instanceof ApiError && error.status === 401)
    return <Notice tone="warn">The session ended before the request. Nothing was written.</Notice>;
  return <Notice tone="bad">{hasProblems ? 'The write was refused. Nothing was written.' : message}</Notice>;
}

export function Problems({ problems, onJump }: { problems?: Problem[]; onJump?: Props['onJump'] }) {
  if (!problems?.length) return null;
  return (
    <Notice tone="bad">
      <ul className="problems-list" aria-label="Problems">
        {problems.map((problem, i) => (
          <li key={i}>
            <Place problem={problem} onJump={onJump} /> {sentence(problem.message)}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

function Place({ problem: { line, column, field }, onJump }: { problem: Problem; onJump?: Props['onJump'] }) {
  return (
    <>
      {line && onJump && (
        <button type="button" className="problem-line" onClick={() => onJump(line, column)}>
          Line {line}:
        </button>
      )}
      {line && !onJump && <b>Line {line}:</b>} {field && <code>{field}:</code>}
    </>
  );
}

/** Errors are alerts. Everything else is said here. */
function useAnnouncement({ phase, answer }: Change) {
  useEffect(() => {
    if (phase === 'applied') announce('The change is written.');
    if (phase !== 'previewed' || !answer) return;
    const effects = answer.report && (summaryOf(answer.report).join(', ') || 'The edit changes no machine.');
    announce(`The preview is ready. ${effects ?? ''}`);
  }, [phase, answer]);
}

/** Calls a function once after each write. */
function useApplied({ phase, written }: Change, onApplied: Props['onApplied']) {
  const call = useRef(onApplied);
  call.current = onApplied;
  useEffect(() => {
    if (phase === 'applied') call.current?.(written ?? []);
  }, [phase, written]);
}
