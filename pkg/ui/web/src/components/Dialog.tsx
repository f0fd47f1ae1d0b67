import { ActionIcon } from '@mantine/core';
import { useEffect, useId, useRef, type ReactNode } from 'react';
import { Icon } from './Icon';
import './dialog.css';

interface Props {
  title: string;
  /** Called when the user leaves the dialog. */
  onClose: () => void;
  /** True while the dialog must not close, because a request is under way. */
  busy?: boolean;
  wide?: boolean;
  children: ReactNode;
}

/**
 * A modal dialog. The browser keeps the focus inside, closes it with Escape, and gives the focus back. It is open as
 * long as it is rendered.
 */
export function Dialog({ title, onClose, busy = false, wide = false, children }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = box.current!;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const leave = () => {
    if (!busy) onClose();
  };
  return (
    <dialog
      ref={box}
      className="dialog"
      data-wide={wide}
      aria-labelledby={heading}
      onCancel={(event) => {
        // A file chooser in the dialog has this event as well.
        if (event.target !== box.current) return;
        event.preventDefault();
        leave();
      }}
      onClose={() => {
        // A browser closes a dialog at the second Escape, whatever the page says.
        if (box.current?.open) return;
        if (busy) box.current?.showModal();
        else onClose();
      }}
    >
      <div className="dialog-head">
        <h2 id={heading}>{title}</h2>
        <ActionIcon variant="subtle" color="gray" onClick={leave} disabled={busy} aria-label="Close" title="Close">
          <Icon name="cross" />
        </ActionIcon>
      </div>
      <div className="dialog-body">{children}</div>
    </dialog>
  );
}
