import { ActionIcon, CopyButton } from '@mantine/core';
import { Icon } from './Icon';

function Copy({ text, label }: { text: string; label: string }) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <ActionIcon
          className="copy"
          variant="subtle"
          color="gray"
          size="sm"
          onClick={copy}
          aria-label={copied ? 'Copied' : label}
          title={copied ? 'Copied' : label}
        >
          <Icon name={copied ? 'check' : 'copy'} size={14} />
        </ActionIcon>
      )}
    </CopyButton>
  );
}

/** A command or a manifest that a user can copy. */
export function Command({ text, label = 'Copy the command' }: { text: string; label?: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <Copy text={text} label={label} />
    </div>
  );
}

const command = /^(.*?): ((?:kubectl|drover|journalctl|systemctl) [^]*?)(, or [^]*)?$/;

/** A remedy is a sentence, often with a command after a colon. */
export function parseRemedy(text: string): { text: string; command?: string; rest?: string } {
  const found = command.exec(text);
  if (!found) return { text };
  return { text: found[1] ?? '', command: found[2], rest: found[3]?.slice(2) };
}

export function Remedy({ text }: { text: string }) {
  const part = parseRemedy(text);
  return (
    <>
      <span>{sentence(part.text)}</span>
      {part.command && <Command text={part.command} />}
      {part.rest && <span>{part.rest}</span>}
    </>
  );
}

/**
 * Drover's texts begin with a lower-case letter, because they follow other words in the command line. Names of fields
 * and resources stay as they are.
 */
export function sentence(text: string): string {
  if (!/^[a-z]+[\s,']/.test(text)) return text;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
