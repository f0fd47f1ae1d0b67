import type { PreviewReport } from '../api/types';
import type { PreviewAnswer } from './api';

/** The effects on a machine, the strongest last. */
const effects: Record<string, string> = {
  None: 'no change',
  InPlace: 'files change, nothing restarts',
  Restart: 'Kubernetes restarts on the node',
  Add: 'new',
  Remove: 'removed',
  Replace: 'replaced by a new machine',
};

export const effectOf = (effect: string) => effects[effect] ?? effect;

/** How many machines have each effect, the strongest first. */
export function summaryOf(report: PreviewReport): string[] {
  const counts = new Map<string, number>();
  for (const { class: effect } of report.machines ?? []) counts.set(effect, (counts.get(effect) ?? 0) + 1);
  return Object.entries(effects)
    .reverse()
    .flatMap(([effect, text]) => {
      const count = counts.get(effect);
      return count ? [`${count === 1 ? '1 machine' : `${count} machines`}: ${text}`] : [];
    });
}

/** The machines that change or that have a problem, in the order of their change. */
export function changedMachines(report: PreviewReport) {
  return (report.machines ?? [])
    .filter((machine) => machine.class !== 'None' || machine.problem || machine.held)
    .sort((a, b) => (a.stage ?? 0) - (b.stage ?? 0));
}

/** Texts that concern the whole edit: oddities of the configuration, operations that wait, and notes. */
export function textsOf(report: PreviewReport): string[] {
  return [
    ...(report.warnings ?? []).map(({ field, message }) => `${field}: ${message}`),
    ...(report.operations ?? []).flatMap(({ field, problem, stuck, held }) => {
      const why = problem ?? stuck ?? held;
      return why ? [`${field}: ${why}`] : [];
    }),
  ];
}

/** Says that the cluster of an edit is gone. A write would make it again. */
export const goneOf = (answer: PreviewAnswer) =>
  answer.report?.new ? 'The cluster no longer exists. This page does not create it again.' : undefined;

/** Says that the cluster of a creation exists. A write would edit it. */
export const existsOf = (answer: PreviewAnswer) =>
  answer.seen ? 'A cluster of this name exists. Choose another name.' : undefined;

/** Says that the preview saw another cluster than the text was made from. A write would undo the change between. */
export const outdatedOf = (answer: PreviewAnswer, madeFrom: string) =>
  answer.seen === madeFrom || answer.problems?.length
    ? undefined
    : 'The cluster changed before the preview, so this text would undo that change. Preview again.';
