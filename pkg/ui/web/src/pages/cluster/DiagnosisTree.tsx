import { useState } from 'react';
import type { Branch, Link, Report } from '../../api/types';
import { Remedy, sentence } from '../../components/Command';
import { Icon } from '../../components/Icon';
import { Since } from '../../components/Since';
import { StateBadge, ToneIcon } from '../../components/StateBadge';
import { toneOf } from '../../lib/states';
import { openPaths, pathOf, worst } from './tree';

/** What is open: what the report suggests, as long as the user has not opened or closed it. */
interface Opening {
  isOpen: (path: string) => boolean;
  toggle: (path: string) => void;
}

function useOpening(suggested: Set<string>): Opening {
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const isOpen = (path: string) => chosen.get(path) ?? suggested.has(path);
  return { isOpen, toggle: (path) => setChosen(new Map(chosen).set(path, !isOpen(path))) };
}

/** The chain of checks as a tree. Checks that work are folded into one line. */
export function DiagnosisTree({ report }: { report: Report }) {
  const opening = useOpening(openPaths(report.tree));
  const path = pathOf('', report.tree.title);
  return (
    <div className="tree">
      <BranchContent branch={report.tree} path={path} opening={opening} />
    </div>
  );
}

interface BranchProps {
  branch: Branch;
  path: string;
  opening: Opening;
}

function BranchContent({ branch, path, opening }: BranchProps) {
  const links = branch.links ?? [];
  const working = links.filter((link) => link.state === 'OK');
  return (
    <>
      {working.length > 0 && <Working links={working} path={pathOf(path, 'OK')} opening={opening} />}
      {links
        .filter((link) => link.state !== 'OK')
        .map((link) => (
          <LinkItem key={link.name} link={link} path={pathOf(path, link.name)} opening={opening} />
        ))}
      {(branch.branches ?? []).map((below) => (
        <BranchItem key={below.title} branch={below} path={pathOf(path, below.title)} opening={opening} />
      ))}
    </>
  );
}

function BranchItem({ branch, path, opening }: BranchProps) {
  const open = opening.isOpen(path);
  const state = worst(branch);
  return (
    <div>
      <button type="button" className="disclosure branch" aria-expanded={open} onClick={() => opening.toggle(path)}>
        <Icon name="right" size={12} />
        <span className="grow clip" title={branch.title}>
          {branch.title}
        </span>
        <StateBadge state={state} />
      </button>
      {open && (
        <div className="twigs">
          <BranchContent branch={branch} path={path} opening={opening} />
        </div>
      )}
    </div>
  );
}

function Working({ links, path, opening }: { links: Link[]; path: string; opening: Opening }) {
  const open = opening.isOpen(path);
  return (
    <div>
      <button type="button" className="disclosure dim" aria-expanded={open} onClick={() => opening.toggle(path)}>
        <Icon name="right" size={12} />
        <ToneIcon tone="good" size={14} />
        <span className="grow clip">
          {links.length === 1 ? '1 check works' : `${links.length} checks work`}
          <span className="hint">: {links.map((link) => link.name).join(', ')}</span>
        </span>
      </button>
      {open && (
        <ul className="twigs">
          {links.map((link) => (
            <li key={link.name} className="working">
              <b>{link.name}</b>{' '}
              <span className="dim clip" title={link.object}>
                {link.object}
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function LinkItem({ link, path, opening }: { link: Link; path: string; opening: Opening }) {
  const open = opening.isOpen(path);
  return (
    <div className="link" data-tone={toneOf(link.state)} data-open={open}>
      <button type="button" className="disclosure" aria-expanded={open} onClick={() => opening.toggle(path)}>
        <Icon name="right" size={12} />
        <span className="grow clip">
          <b>{link.name}</b> <span className="dim">{open ? link.object : (link.what ?? link.object)}</span>
        </span>
        <StateBadge state={link.state} />
      </button>
      {open && <LinkDetails link={link} />}
    </div>
  );
}

function LinkDetails({ link }: { link: Link }) {
  return (
    <div className="link-details">
      {link.what && <p className="link-what">{sentence(link.what)}</p>}
      {link.since && (
        <p className="dim">
          {link.state} for <Since time={link.since} />
        </p>
      )}
      {link.why && (
        <pre className="output" tabIndex={0} aria-label="Output">
          {link.why}
        </pre>
      )}
      {!!link.do?.length && (
        <>
          <h3>What to do</h3>
          <ol className="remedies">
            {link.do.map((remedy) => (
              <li key={remedy}>
                <Remedy text={remedy} />
              </li>
            ))}
          </ol>
        </>
      )}
      {link.waitsFor && (
        <p className="dim">
          Waits for {link.waitsFor}
          {!!link.wokenBy?.length && <>. A change of {link.wokenBy.join(', ')} wakes it</>}.
        </p>
      )}
    </div>
  );
}
