import { ActionIcon } from '@mantine/core';
import { useEffect, useId, useRef, type ReactNode } from 'react';
import { Icon } from './Icon';
import './dialog.css';

interface Props {
  title: string;
  children: ReactNode;
  /** Closes the dialog. A dialog without it stays until its work is done. */
  onClose?: () => void;
  /** The dialog stays open while it works. */
  busy?: boolean;
  /** More room, for a preview or a form with many fields. */
  wide?: boolean;
}

/**
 * A modal dialog, open while it is mounted. The browser keeps the focus in it, and returns the focus afterwards. Drop-
 * downs of Mantine need withinPortal={false} in it, because the browser puts a dialog above everything else.
 */
export function Dialog({ title, children, onClose, busy, wide }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    const dialog = box.current!;
    dialog.showModal();
    return () => {
      dialog.close();
      focusAfter(opener);
    };
  }, []);
  const leave = () => {
    if (!busy) onClose?.();
  };
  return (
    <dialog
      ref={box}
      className="dialog"
      data-wide={wide || undefined}
      aria-labelledby={id}
      aria-busy={busy}
      onCancel={(event) => {
        // A file chooser in the dialog has this event as well.
        if (event.target !== box.current) return;
        // Only the page's state closes the dialog.
        event.preventDefault();
        leave();
      }}
      onClose={() => {
        // A browser closes a dialog at the second Escape, whatever the page says.
        if (box.current?.open) return;
        if (busy || !onClose) box.current?.showModal();
        else onClose();
      }}
    >
      <div className="dialog-head">
        <h2 id={id}>{title}</h2>
        {onClose && (
          <ActionIcon variant="subtle" color="gray" onClick={leave} disabled={busy} aria-label="Close" title="Close">
            <Icon name="close" />
          </ActionIcon>
        )}
      </div>
      <div className="dialog-body">{children}</div>
    </dialog>
  );
}

/** An entry of a menu is gone when its dialog closes. Its menu's button gets the focus instead. */
function focusAfter(opener: Element | null) {
  if (document.querySelector('dialog[open]')) return;
  if (opener instanceof HTMLElement && opener.isConnected && opener !== document.body) opener.focus();
  else document.querySelector<HTMLElement>('[data-dialog-opener]')?.focus();
}
