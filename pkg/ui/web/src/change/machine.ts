import { ApiError } from '../api/client';
import { isEarly, isUnknown, type ChangeApi, type PreviewAnswer } from './api';

export type Phase = 'idle' | 'previewing' | 'previewed' | 'applying' | 'applied' | 'failed';

export interface ChangeState {
  phase: Phase;
  /** The text of the last preview or write. */
  text?: string;
  answer?: PreviewAnswer;
  error?: unknown;
  /** A write got no answer, so it may have taken effect. */
  unknown: boolean;
  /** The objects of the last write. */
  written?: string[];
}

export const idle: ChangeState = { phase: 'idle', unknown: false };

export type Step =
  | { kind: 'reset' }
  | { kind: 'preview'; text: string }
  | { kind: 'previewed'; answer: PreviewAnswer }
  | { kind: 'noPreview'; error: unknown }
  | { kind: 'apply' }
  | { kind: 'applied'; written: string[] }
  | { kind: 'refused'; error: unknown };

/** The state after a step. */
export function after(state: ChangeState, step: Step): ChangeState {
  switch (step.kind) {
    case 'reset':
      return idle;
    case 'preview':
      return { ...state, phase: 'previewing', text: step.text, error: undefined, written: undefined };
    case 'previewed':
      return { phase: 'previewed', text: state.text, answer: step.answer, unknown: false };
    case 'noPreview':
      return { phase: 'failed', text: state.text, error: step.error, unknown: state.unknown };
    case 'apply':
      return { ...state, phase: 'applying', error: undefined };
    case 'applied':
      return { phase: 'applied', text: state.text, answer: state.answer, unknown: false, written: step.written };
    case 'refused':
      return refused(state, step.error);
  }
}

function refused(state: ChangeState, error: unknown): ChangeState {
  // The server did not begin, so the preview is still what the user has seen.
  if (isEarly(error)) return { ...state, phase: 'previewed', error };
  const problems = error instanceof ApiError ? error.problems : undefined;
  const answer = state.answer && problems ? { ...state.answer, problems } : state.answer;
  return { ...state, phase: 'failed', answer, error, unknown: isUnknown(error) };
}

/** Reports whether this text may be written: its preview is here, has no problems, and no write followed it. */
export function canApply(state: ChangeState, text: string): boolean {
  return state.phase === 'previewed' && state.text === text && !state.answer?.problems?.length;
}

/** Previews and writes texts. It repeats nothing by itself, and writes once for each preview. */
export class ChangeMachine {
  private current = idle;
  private run = 0;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly api: ChangeApi) {}

  readonly state = () => this.current;

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  readonly canApply = (text: string) => canApply(this.current, text);

  /** Asks what a text would do. A later preview replaces an earlier one that has no answer yet. It returns the answer. */
  readonly preview = async (text: string): Promise<PreviewAnswer | undefined> => {
    if (this.current.phase === 'applying') return undefined;
    const run = ++this.run;
    this.step({ kind: 'preview', text });
    try {
      const answer = await this.api.preview(text);
      if (run !== this.run) return undefined;
      this.step({ kind: 'previewed', answer });
      return answer;
    } catch (error) {
      if (run === this.run) this.step({ kind: 'noPreview', error });
      return undefined;
    }
  };

  /** Writes the text of the preview. It returns true if the server confirmed the write. */
  readonly apply = async (text: string): Promise<boolean> => {
    if (!this.canApply(text)) return false;
    const seen = this.current.answer?.seen ?? '';
    this.step({ kind: 'apply' });
    try {
      const written = await this.api.apply(text, seen);
      this.step({ kind: 'applied', written });
      return true;
    } catch (error) {
      this.step({ kind: 'refused', error });
      return false;
    }
  };

  /** Forgets the preview. A write that is under way continues. */
  readonly reset = () => {
    if (this.current.phase === 'applying') return;
    this.run++;
    this.step({ kind: 'reset' });
  };

  private step(step: Step) {
    this.current = after(this.current, step);
    this.listeners.forEach((listener) => listener());
  }
}
