import { Button } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { messageOf } from '../../api/client';
import { useExplanation, useObjectText, usePlan } from '../../api/queries';
import type { Condition, Machine, Plan } from '../../api/types';
import { Failure } from '../../components/Notice';
import { Since } from '../../components/Since';
import { ToneIcon } from '../../components/StateBadge';
import { sentence } from '../../components/Command';
import type { Tone } from '../../lib/states';
import { Placeholder } from './OverviewTab';

/** A machine and its node side by side, then its plan and the output of its driver. */
export function MachineDetails({ machine }: { machine: Machine }) {
  const conditions = machine.conditions ?? [];
  const ofNode = (condition: Condition) => condition.type.startsWith('Node');
  return (
    <div className="machine-details">
      <section aria-label="Machine">
        <h3>Machine</h3>
        <Facts
          facts={{
            Roles: machine.roles?.join(', '),
            Infrastructure: machine.infrastructure,
            Name: machine.infrastructureName,
            'Provider ID': machine.providerID,
            Addresses: machine.addresses?.join(', '),
            Created: <Since time={machine.created} suffix=" ago" />,
          }}
        />
        <Conditions conditions={conditions.filter((c) => !ofNode(c))} />
      </section>
      <section aria-label="Node">
        <h3>Node</h3>
        {machine.node ? (
          <Facts
            facts={{ Name: machine.node, Version: machine.version, System: machine.os, Runtime: machine.runtime }}
          />
        ) : (
          <p className="dim">The node does not exist yet.</p>
        )}
        <Conditions conditions={conditions.filter(ofNode)} />
      </section>
      <PlanSection machine={machine} />
      <DriverOutput machine={machine} />
    </div>
  );
}

function Facts({ facts }: { facts: Record<string, ReactNode> }) {
  return (
    <dl className="facts">
      {Object.entries(facts)
        .filter(([, value]) => value)
        .map(([label, value]) => (
          <div key={label} className="fact">
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A condition that is as it should be has no reason and no message, whatever its status is. */
function conditionTone({ status, reason, message }: Condition): Tone {
  if (!reason && !message) return 'good';
  return status === 'Unknown' ? 'busy' : 'warn';
}

function Conditions({ conditions }: { conditions: Condition[] }) {
  if (conditions.length === 0) return null;
  return (
    <ul className="conditions" aria-label="Conditions">
      {conditions.map((c) => (
        <li key={c.type}>
          <ToneIcon tone={conditionTone(c)} size={14} />
          <span className="grow">
            <b>{c.type}</b>{' '}
            <span className="dim">
              {c.status}
              {c.reason && c.reason !== c.type && ` · ${c.reason}`}
            </span>
            {c.message && <span className="condition-message dim">{sentence(c.message)}</span>}
          </span>
          <span className="dim">
            <Since time={c.since} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function PlanSection({ machine }: { machine: Machine }) {
  const { data, error, refetch } = usePlan(machine.namespace, machine.name);
  const explanation = useExplanation(machine.namespace, machine.cluster).data;
  const explained = explanation?.decision?.machines?.find((m) => m.name === machine.name);
  return (
    <section aria-label="Plan" className="wide">
      <h3>Plan</h3>
      {error && <Failure error={error} retry={refetch} />}
      {!data && !error && <Placeholder lines={3} />}
      {data?.failed && <FailedInstruction failed={data.failed} />}
      {data && (
        <div className="plan">
          <Facts
            facts={{
              Delivered: data.delivered ? <Since time={data.delivered} suffix=" ago" /> : 'not yet',
              Applied: data.applied ? <Since time={data.applied} suffix=" ago" /> : 'not yet',
              Progress: explained && `${explained.plan}, ${explained.state}`,
              'Etcd member': explained?.member,
              Change: explained?.change,
              Agent: data.agentVersion,
            }}
          />
          <PlanContent plan={data} />
        </div>
      )}
    </section>
  );
}

function FailedInstruction({ failed }: { failed: NonNullable<Plan['failed']> }) {
  return (
    <div className="failed">
      <p>
        <ToneIcon tone="bad" size={14} />{' '}
        {failed.instruction ? (
          <>
            Instruction <b>{failed.instruction}</b> fails.
          </>
        ) : (
          'The plan fails.'
        )}{' '}
        The agent tried it {failed.attempts === 1 ? 'once' : `${failed.attempts} times`}.
      </p>
      {failed.output && (
        <pre className="output" tabIndex={0} aria-label="Output of the instruction">
          {failed.output}
        </pre>
      )}
    </div>
  );
}

function PlanContent({ plan }: { plan: Plan }) {
  return (
    <div className="plan-content">
      <ul className="probes" aria-label="Probes">
        {(plan.probes ?? []).map((probe) => (
          <li key={probe.name}>
            <ToneIcon tone={probe.healthy ? 'good' : 'warn'} size={14} />
            {probe.name} <span className="dim">{probe.healthy ? 'healthy' : 'unhealthy'}</span>
          </li>
        ))}
      </ul>
      <Listing
        title="Instructions"
        items={(plan.instructions ?? []).map((i) => (i.image ? `${i.name}  ${i.image}` : i.name))}
      />
      <Listing title="Files" items={plan.files ?? []} />
    </div>
  );
}

function Listing({ title, items }: { title: string; items: string[] }) {
  if (items.length === 0) return null;
  return (
    <details>
      <summary>
        {title} <span className="dim">{items.length}</span>
      </summary>
      <ul className="mono listing">
        {items.map((item) => (
          <li key={item}>{item}</li>
        ))}
      </ul>
    </details>
  );
}

function DriverOutput({ machine }: { machine: Machine }) {
  const [open, setOpen] = useState(false);
  const { data, error } = useObjectText('machines', machine.namespace, machine.name, 'logs', open);
  return (
    <section aria-label="Output of the driver" className="wide">
      <Button variant="default" size="compact-sm" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? 'Hide' : 'Show'} the driver's output
      </Button>
      {open && error && <p className="dim">{messageOf(error)}</p>}
      {open && data !== undefined && (
        <pre className="output" tabIndex={0} aria-label="Output">
          {data || 'No output.'}
        </pre>
      )}
    </section>
  );
}
