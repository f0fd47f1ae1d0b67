import { Button } from '@mantine/core';
import { useState } from 'react';
import { objectPath, request } from '../../api/client';
import type { PreviewMachine, PreviewReport } from '../../api/types';
import { sentence } from '../../components/Command';
import { Failure, Notice } from '../../components/Notice';
import type { ClusterName } from './ClusterPage';
import { changedMachines, effectOf, summaryOf } from './effects';

interface Props extends ClusterName {
  /** Returns the edited manifest. */
  read: () => string;
  editable: boolean;
  edited: boolean;
  edit: () => void;
  /** Undoes the edit, and makes the manifest read only. */
  leave: () => void;
}

/** Shows what the edited manifest would do to each machine. It changes nothing. */
export function Preview({ namespace, name, read, editable, edited, edit, leave }: Props) {
  const [busy, setBusy] = useState(false);
  const [answer, setAnswer] = useState<{ report?: PreviewReport; error?: unknown }>({});
  const ask = async () => {
    setBusy(true);
    try {
      const init = { method: 'POST', body: read(), headers: { 'Content-Type': 'text/yaml' } };
      const response = await request(objectPath('clusters', namespace, name, 'preview'), init);
      setAnswer({ report: (await response.json()) as PreviewReport });
    } catch (error) {
      setAnswer({ error });
    }
    setBusy(false);
  };
  if (!editable)
    return (
      <div className="preview-bar">
        <Button variant="default" onClick={edit}>
          Try an edit
        </Button>
        <span className="dim">It shows what a change would do to each machine, and changes nothing.</span>
      </div>
    );
  return (
    <>
      <div className="preview-bar">
        <Button onClick={ask} loading={busy} disabled={!edited}>
          Preview the edit
        </Button>
        <Button
          variant="default"
          onClick={() => {
            leave();
            setAnswer({});
          }}
        >
          Discard the edit
        </Button>
      </div>
      <div role="status">
        {answer.error !== undefined && <Failure error={answer.error} />}
        {answer.report && <Result report={answer.report} />}
      </div>
    </>
  );
}

function Result({ report }: { report: PreviewReport }) {
  const machines = changedMachines(report);
  const texts = [
    ...(report.warnings ?? []).map(({ field, message }) => `${field}: ${message}`),
    ...(report.operations ?? []).flatMap(({ field, problem, stuck, held }) => {
      const why = problem ?? stuck ?? held;
      return why ? [`${field}: ${why}`] : [];
    }),
    ...(report.notes ?? []).map(sentence),
  ];
  return (
    <section className="card preview" aria-label="Effect of the edit">
      <div className="card-head">
        <h2>Effect of the edit</h2>
      </div>
      <div className="card-body">
        <p>{summaryOf(report).join(' · ') || 'The edit changes no machine.'}</p>
        {texts.map((text) => (
          <Notice key={text} tone="warn">
            {text}
          </Notice>
        ))}
        {machines.length > 0 && (
          <ol className="preview-machines">
            {machines.map((machine, i) => (
              <MachineEffect key={i} machine={machine} />
            ))}
          </ol>
        )}
        {!!report.order?.length && (
          <p className="dim">
            Order: {report.order.map(({ name, pace }) => `${name} (${pace} at a time)`).join(', then ')}
          </p>
        )}
      </div>
    </section>
  );
}

function MachineEffect({ machine }: { machine: PreviewMachine }) {
  const fields = (machine.causes ?? []).map((cause) => cause.field).join(', ');
  return (
    <li>
      <b>{machine.name ?? `new machine of pool ${machine.pool ?? ''}`}</b> {effectOf(machine.class)}
      {machine.drained && ', after a drain'}
      {fields && <span className="dim">: {fields}</span>}
      {machine.held && <div className="dim">{sentence(machine.held)}</div>}
      {machine.problem && <Notice tone="bad">{sentence(machine.problem)}</Notice>}
    </li>
  );
}
