/** Formats log lines. Pure. */

export interface ReadableLine {
  level: 'warn' | 'error' | null;
  text: string;
  /** The other fields of a structured line, as `name=value`. */
  more: string;
}

const escapeCode = String.fromCharCode(27);
const terminalCodes = new RegExp(`${escapeCode}(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\\u0007]*\\u0007|[@-_])`, 'g');

/** Fields that the page shows elsewhere. The tooltip shows the whole line. */
const shownElsewhere = new Set([
  'at',
  'time',
  'level',
  'msg',
  'message',
  'node_id',
  'node_instance_id',
  'allocation_id',
  'workflow_id',
  'correlation_id',
]);
const maxValueLength = 120;

/** Parses structured lines; strips terminal codes from others. */
export function readableLine(line: string): ReadableLine {
  const fields = fieldsOf(line);
  if (!fields) return { level: null, text: line.replaceAll(terminalCodes, ''), more: '' };
  const more = Object.entries(fields)
    .filter(([name]) => !shownElsewhere.has(name))
    .map(([name, value]) => `${name}=${asText(value)}`)
    .join(' ');
  return { level: levelOf(fields.level), text: asText(fields.msg ?? fields.message), more };
}

const asText = (value: unknown): string =>
  (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).slice(0, maxValueLength);

/** `level` is a name, or a number as pino writes it. */
function levelOf(level: unknown): ReadableLine['level'] {
  if (level === 'error' || level === 'fatal' || (typeof level === 'number' && level >= 50)) return 'error';
  if (level === 'warn' || level === 40) return 'warn';
  return null;
}

function fieldsOf(line: string): Record<string, unknown> | null {
  if (!line.startsWith('{"') || !line.endsWith('}')) return null;
  try {
    const parsed: Record<string, unknown> = JSON.parse(line);
    return typeof (parsed.msg ?? parsed.message) === 'string' ? parsed : null;
  } catch (error) {
    // The line only looked like JSON; show it unchanged.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
