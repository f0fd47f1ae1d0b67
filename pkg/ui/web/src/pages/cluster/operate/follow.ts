import type { Cluster, Condition, ObjectEvent } from '../../../api/types';
import type { Tone } from '../../../lib/states';
import { kindOf, runningIn, type OperationField, type Running } from './kinds';

/** An operation that this window has requested. */
export type Request =
  | {
      field: OperationField;
      /** The newest end of an operation of this kind before the request. */
      before: End | undefined;
    }
  | {
      /** The upgrade of the node agents. */
      field: undefined;
      /** The last change of its condition before the request. */
      before: string | undefined;
    };

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
  if (!request.field) return agentsRequested(request.before, cluster);
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

/** The condition about the upgrade of agents. */
export const agentsIn = (conditions: readonly Condition[] | undefined) =>
  conditions?.find(({ type }) => type === 'AgentsUpgraded');

/** An upgrade of agents changes its condition when it begins and when it ends. */
function agentsRequested(before: string | undefined, { conditions, state }: Cluster): Progress {
  const label = 'Upgrade of the node agents';
  const found = agentsIn(conditions);
  if (state === 'Deleting') return { tone: 'off', text: `${label}: the cluster is being deleted.`, ended: true };
  if (!found || found.since === before)
    return { tone: 'busy', text: `${label}: requested. It has not begun.`, ended: false };
  if (found.status === 'True') return { tone: 'good', text: `${label}: done.`, ended: true };
  return { ...agentProgress(conditions)!, ended: found.status === 'False' };
}

/** The upgrade of agents, which is a condition and no operation. */
export function agentProgress(conditions: readonly Condition[] | undefined): Progress | undefined {
  const found = agentsIn(conditions);
  if (!found || found.status === 'True') return undefined;
  const tone = found.status === 'False' ? 'bad' : 'busy';
  return { tone, text: found.message ?? 'Upgrade of the node agents', ended: false };
}

/** Reports that a message says less about the upgrade of agents than its condition does. */
export const isAboutAgents = (message: string | undefined, conditions: readonly Condition[] | undefined) =>
  !!message?.startsWith('upgrading the node agent') && agentProgress(conditions) !== undefined;
