import { useMemo, useSyncExternalStore } from 'react';
import { changeApi, type ChangeOptions, type PreviewAnswer, type Target } from './api';
import { ChangeMachine, type Phase } from './machine';

export type { Phase } from './machine';

/** A change of a cluster: a text, its preview, and at most one write for each preview. */
export interface Change {
  phase: Phase;
  answer?: PreviewAnswer;
  /** The text that the answer is about. */
  text?: string;
  error?: unknown;
  /** A write got no answer, so it may have taken effect. */
  unknown: boolean;
  /** The objects of the last write. */
  written?: string[];
  canApply: (text: string) => boolean;
  /** Asks for the preview and returns it, if no later one replaced it. */
  preview: (text: string) => Promise<PreviewAnswer | undefined>;
  apply: (text: string) => Promise<boolean>;
  reset: () => void;
}

export function useChange({ namespace, name }: Target, { isNew }: ChangeOptions = {}): Change {
  const machine = useMemo(
    () => new ChangeMachine(changeApi({ namespace, name }, { isNew })),
    [namespace, name, isNew],
  );
  const state = useSyncExternalStore(machine.subscribe, machine.state);
  const { canApply, preview, apply, reset } = machine;
  return { ...state, canApply, preview, apply, reset };
}
