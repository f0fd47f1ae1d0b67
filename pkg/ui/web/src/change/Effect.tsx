import type { PreviewMachine, PreviewReport } from '../api/types';
import { sentence } from '../components/Command';
import { Notice } from '../components/Notice';
import { changedMachines, effectOf, summaryOf, textsOf } from './effects';
import './change.css';

/** What an edit does to each machine, in which order, and which fields cause it. */
export function Effect({ report }: { report: PreviewReport }) {
  const machines = changedMachines(report);
  const nothing = report.new ? 'The cluster is new, and has no machines yet.' : 'The edit changes no machine.';
  return (
    <section className="effect" aria-label="Effect of the edit">
      <p className="effect-summary">{summaryOf(report).join(' · ') || nothing}</p>
      {textsOf(report).map((text) => (
        <Notice key={text} tone="warn">
          {text}
        </Notice>
      ))}
      {report.notes?.map((text) => (
        <p key={text} className="dim">
          {sentence(text)}
        </p>
      ))}
      {machines.length > 0 && (
        <ol className="effect-machines" tabIndex={0} aria-label="Machines that change">
          {machines.map((machine, i) => (
            <MachineEffect key={i} machine={machine} />
          ))}
        </ol>
      )}
      {!!report.order?.length && (
        <p className="dim effect-order">
          Order: {report.order.map(({ name, pace }) => `${name} (${pace})`).join(', then ')}
        </p>
      )}
      <Restored report={report} />
    </section>
  );
}

function MachineEffect({ machine }: { machine: PreviewMachine }) {
  const fields = (machine.causes ?? []).map((cause) => cause.field).join(', ');
  return (
    <li data-class={machine.class}>
      <b>{machine.name ?? `New machine of pool ${machine.pool ?? ''}`}</b> {effectOf(machine.class)}
      {machine.drained && ', after a drain'}
      {fields && <span className="dim">: {fields}</span>}
      {machine.pending && <span className="dim"> (independent of this edit)</span>}
      {machine.held && <div className="dim">{sentence(machine.held)}</div>}
      {machine.problem && <Notice tone="bad">{sentence(machine.problem)}</Notice>}
    </li>
  );
}

function Restored({ report }: { report: PreviewReport }) {
  if (!report.restored?.length) return null;
  return (
    <div className="scroll-x">
      <table className="plain">
        <caption className="visually-hidden">Fields that the snapshot puts back</caption>
        <thead>
          <tr>
            <th scope="col">Field from the snapshot</th>
            <th scope="col">Now</th>
            <th scope="col">Then</th>
          </tr>
        </thead>
        <tbody>
          {report.restored.map(({ field, old, new: next }) => (
            <tr key={field}>
              <td>{field}</td>
              <td>{old || '–'}</td>
              <td>{next || '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
