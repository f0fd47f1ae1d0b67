import { ActionIcon, Menu, useMantineColorScheme, type MantineColorScheme } from '@mantine/core';
import { Link, useRouterState } from '@tanstack/react-router';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { Icon, type IconName } from '../components/Icon';
import { Notice } from '../components/Notice';
import { announce, useAnnouncement } from '../lib/announce';
import { hasUnsaved, useHasUnsaved } from '../lib/unsaved';
import { useConnection, useProblems } from '../live/hooks';
import { chooseNamespaces } from '../session/namespaces';
import { signOut, useSessionState } from '../session/store';
import { DiscardQuestion } from './Unsaved';
import './layout.css';

/** The frame of every page: navigation, the state of the connection, and problems that concern all pages. */
export function Shell({ children, canChoose }: { children: ReactNode; canChoose?: boolean }) {
  useSlashForSearch();
  return (
    <>
      <a className="skip" href="#content">
        Skip to content
      </a>
      <header className="top">
        <Link to="/clusters" className="brand">
          <img src="/ui/favicon.svg" alt="" width={22} height={22} />
          Drover
        </Link>
        <nav aria-label="Pages" className="pages">
          <Link to="/clusters" activeProps={{ 'aria-current': 'page' }}>
            Clusters
          </Link>
          <Link to="/administration" activeProps={{ 'aria-current': 'page' }}>
            Administration
          </Link>
        </nav>
        <div className="grow" />
        <ConnectionState />
        <SchemeMenu />
        <UserMenu canChoose={canChoose} />
      </header>
      <main id="content" tabIndex={-1} className="content">
        <Problems />
        {children}
      </main>
      <Announcer />
    </>
  );
}

function useSlashForSearch() {
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.closest('input, textarea, select, [contenteditable="true"]')) return;
      const search = document.querySelector<HTMLInputElement>('input[type="search"]');
      if (!search) return;
      event.preventDefault();
      search.focus();
      search.select();
    };
    window.addEventListener('keydown', focus);
    return () => window.removeEventListener('keydown', focus);
  }, []);
}

const links = { connecting: 'Connecting', live: 'Live', reconnecting: 'Reconnecting' } as const;

function ConnectionState() {
  const link = useConnection();
  const wasCut = useRef(false);
  useEffect(() => {
    if (link === 'reconnecting') announce('The connection is lost. The page shows the last known state.');
    else if (link === 'live' && wasCut.current) announce('The connection is back.');
    wasCut.current = link === 'reconnecting';
  }, [link]);
  return (
    <>
      <span className="link-state" data-link={link} title={`The page is ${links[link].toLowerCase()}`}>
        <span className="dot" aria-hidden="true" />
        <span className="link-word">{links[link]}</span>
      </span>
      {link === 'reconnecting' && (
        <div className="banner">
          <Icon name="alert" />
          Reconnecting to the server. The page shows the last known state.
        </div>
      )}
    </>
  );
}

const schemes: { value: MantineColorScheme; label: string; icon: IconName }[] = [
  { value: 'auto', label: 'Like the system', icon: 'screen' },
  { value: 'light', label: 'Light', icon: 'sun' },
  { value: 'dark', label: 'Dark', icon: 'moon' },
];

function SchemeMenu() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const current = schemes.find((scheme) => scheme.value === colorScheme) ?? schemes[0]!;
  return (
    <Menu position="bottom-end" width={180}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label={`Colours: ${current.label}`} title="Colours">
          <Icon name={current.icon} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {schemes.map((scheme) => (
          <Menu.Item
            key={scheme.value}
            leftSection={<Icon name={scheme.icon} />}
            rightSection={scheme === current && <Icon name="check" />}
            onClick={() => setColorScheme(scheme.value)}
          >
            {scheme.label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function UserMenu({ canChoose }: { canChoose?: boolean }) {
  const state = useSessionState();
  const isUnsaved = useHasUnsaved();
  const [error, setError] = useState('');
  const [asking, setAsking] = useState<() => void>();
  const button = useRef<HTMLButtonElement>(null);
  if (state.phase !== 'signedIn') return null;
  const { user, version } = state.session;
  const leave = () => signOut().catch((e: Error) => setError(e.message));
  const choose = () => {
    setAsking(undefined);
    chooseNamespaces([]);
  };
  /** Does something that takes the page away. It asks first if the page holds an edit. */
  const go = (away: () => void) => (hasUnsaved() ? setAsking(() => away) : away());
  const stay = () => {
    setAsking(undefined);
    // The entry of the menu is gone, so the focus returns to the menu.
    requestAnimationFrame(() => button.current?.focus());
  };
  return (
    <>
      <Menu position="bottom-end" width={240}>
        <Menu.Target>
          <ActionIcon ref={button} variant="subtle" color="gray" size="lg" aria-label={`User ${user}`} title={user}>
            <Icon name="user" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>
            {user}
            <br />
            Drover {version}
          </Menu.Label>
          {error && <Menu.Label>{error}</Menu.Label>}
          {canChoose && <Menu.Item onClick={() => go(choose)}>Choose other namespaces</Menu.Item>}
          <Menu.Item onClick={() => go(leave)} closeMenuOnClick={isUnsaved}>
            Sign out
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {asking && (
        <DiscardQuestion onStay={stay} onDiscard={asking}>
          {error && <Notice tone="bad">{error}</Notice>}
        </DiscardQuestion>
      )}
    </>
  );
}

function Problems() {
  const problems = useProblems();
  if (problems.length === 0) return null;
  return (
    <div className="problems">
      {problems.map((p) => (
        <Notice key={p.kind + p.namespace} tone="warn">
          {p.kind === 'clusters' ? 'Clusters' : 'Machines'}
          {p.namespace && (
            <>
              {' '}
              of namespace <b>{p.namespace}</b>
            </>
          )}{' '}
          are not shown: {p.error}
        </Notice>
      ))}
    </div>
  );
}

/** Names the page in the window's title and for screen readers after each change of the page. */
export function useTitle(title: string) {
  const path = useRouterState({ select: (s) => s.location.pathname });
  useEffect(() => {
    document.title = `${title} · Drover`;
    announce(title);
  }, [title, path]);
}

function Announcer() {
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {useAnnouncement()}
    </div>
  );
}
