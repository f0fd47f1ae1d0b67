/** An event of a text/event-stream. */
export interface StreamEvent {
  event: string;
  id?: string;
  data: string;
}

/** Cuts the text of an event stream into events. Text arrives in pieces that end anywhere. */
export class StreamParser {
  private rest = '';
  private id: string | undefined;

  push(text: string): StreamEvent[] {
    // A carriage return can be the last character of a piece, and its line feed the first of the next.
    this.rest = (this.rest + text).replaceAll('\r\n', '\n');
    const blocks = this.rest.split('\n\n');
    this.rest = blocks.pop() ?? '';
    return blocks.map((block) => this.parse(block)).filter((event) => event !== undefined);
  }

  private parse(block: string): StreamEvent | undefined {
    let event = 'message';
    const data: string[] = [];
    for (const line of block.split('\n')) {
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') event = value;
      if (field === 'id') this.id = value;
      if (field === 'data') data.push(value);
    }
    return data.length ? { event, id: this.id, data: data.join('\n') } : undefined;
  }
}
