import type { Cluster, Condition, ObjectEvent } from '../../../api/types';
import type { Tone } from '../../../lib/states';
import { kindOf, runningIn, type OperationField, type Running } from './kinds';

/** An operation that this page has requested, and the Events of its kind that were there before. */
export interface Request {
  field: OperationField;
  /** When the user requested it, by the clock of the browser. */
  at: string;
  /** The newest end of an operation of this kind before the request. */
  before: End | undefined;
}

/** The end of an operation, from an Event. */
export interface End {
  reason: 'OperationSucceeded' | 'OperationFailed' | 'OperationCancelled';
  message: string;
  last: string;
  count: number;
}

const ends: readonly string[] = ['OperationSucceeded', 'OperationFailed', 'OperationCancelled'];

/** The newest end of an operation of a kind. Events are the newest first, and their messages begin with the record. */
export function lastEnd(field: OperationField, events: readonly ObjectEvent[]): End | undefined {
  const { record } = kindOf(field);
  const of = (text: string) => text === record || text.startsWith(`${record}: `);
  let found: End | undefined;
  for (const { reason, message, last, count } of events) {
    if (!ends.includes(reason) || !of(message)) continue;
    if (found && Date.parse(found.last) >= Date.parse(last)) continue;
    found = { reason: reason as End['reason'], message: message.slice(record.length + 2), last, count };
  }
  return found;
}

const same = (a: End | undefined, b: End | undefined) =>
  a?.reason === b?.reason && a?.message === b?.message && a?.last === b?.last && a?.count === b?.count;

/** What the header says about an operation. */
export interface Progress {
  tone: Tone;
  text: string;
  /** The operation has ended. A user can close the line. */
  ended: boolean;
}

/** How far a requested operation is. Its end comes from Events, because a short operation can end between two rows. */
export function progressOf(request: Request, cluster: Cluster, events: readonly ObjectEvent[]): Progress {
  const { label, title } = kindOf(request.field);
  const end = lastEnd(request.field, events);
  if (end && !same(end, request.before)) return ended(label, end);
  const running = runningIn(cluster);
  if (running?.kind.field === request.field) return progress(running);
  if (cluster.state === 'Deleting')
    return { tone: 'off', text: `${label}: the cluster is being deleted.`, ended: true };
  const other = running ? ` It waits for the ${running.kind.title} to end.` : '';
  return { tone: 'busy', text: `${label}: requested. The ${title} has not begun.${other}`, ended: false };
}

function ended(label: string, { reason, message }: End): Progress {
  switch (reason) {
    case 'OperationSucceeded':
      return { tone: 'good', text: `${label}: done.`, ended: true };
    case 'OperationCancelled':
      return { tone: 'off', text: `${label}: cancelled. ${message}`.trim(), ended: true };
    case 'OperationFailed':
      return { tone: 'bad', text: `${label}: failed. ${message}`.trim(), ended: true };
  }
}

/** The operation that the row of the cluster shows, whoever has requested it. */
export function progress({ kind, failed, step }: Running): Progress {
  return failed
    ? { tone: 'bad', text: `${kind.label}: failed. ${step}`, ended: false }
    : { tone: 'busy', text: `${kind.label}: ${step}`, ended: false };
}

/** The upgrade of agents, which is a condition and no operation. */
export function agentProgress(conditions: readonly Condition[] | undefined): Progress | undefined {
  const found = conditions?.find(({ type }) => type === 'AgentsUpgraded');
  if (!found || found.status === 'True') return undefined;
  const tone = found.status === 'False' ? 'bad' : 'busy';
  return { tone, text: found.message ?? 'Upgrade of the node agents', ended: false };
}
