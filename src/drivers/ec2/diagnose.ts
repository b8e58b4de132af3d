/**
 * Collects what only the provider has: the reason for a machine's state, its status checks and its
 * console. Works on a dead one too.
 */
import type { Diagnosis, DriverTarget } from '../driver.ts';
import type { Cloud } from './cloud.ts';
import { codeOf } from './cloud-error.ts';
import { type Ec2Host, hasEnded, ownAnywhere, type Placed } from './ec2-host.ts';
import type { Redact } from './secrets.ts';

const max_lines = 200;

/** The last message of our boot script on the console, if it gave up. */
export function bootMessageIn(text: string): { code: string; summary: string } | null {
  const said = [...text.matchAll(/slipway: (boot failed|agent ended): ([a-z_]+): ([^\r\n]*)/g)].at(-1);
  const [, how, code, words] = said ?? [];
  return how && code ? { code, summary: `${words} (${how}: ${code})` } : null;
}

/** A part that cannot be read must not hide the others. */
const orNothing = async <T>(answer: Promise<T>, nothing: T): Promise<T | { refused: string }> =>
  answer.catch((error: unknown) => (codeOf(error) ? { refused: codeOf(error) } : nothing));

async function shown(cloud: Cloud, { row }: Placed) {
  const [console_text, checks] = await Promise.all([
    orNothing(cloud.consoleText(row.id), ''),
    row.state === 'running' ? orNothing(cloud.checks(row.id), null) : null,
  ]);
  const text = typeof console_text === 'string' ? console_text : '';
  const unread = typeof console_text === 'string' ? null : `its console cannot be read (${console_text.refused})`;
  const health =
    checks && 'system' in checks
      ? [`status checks: machine ${checks.instance}, its host ${checks.system}`, ...checks.events].join('; ')
      : null;
  return { text, notes: [row.reason, health, unread].filter((note) => note !== null) };
}

export async function diagnose(host: Ec2Host, target: DriverTarget, redact: Redact): Promise<Diagnosis> {
  const { found, settling } = await ownAnywhere(host, target);
  const placed = found.find((each) => !hasEnded(each)) ?? found[0];
  if (!placed) {
    const summary = settling ? 'a machine was asked for and is not listed yet' : 'no machine of this instance exists';
    return { summary, certain: false, attachments: [] };
  }
  const { row, cloud } = placed;
  const { text, notes } = await shown(cloud, placed);
  const lines = redact(text).trimEnd().split('\n').slice(-max_lines).join('\n');
  const word = bootMessageIn(text);
  const seen = `${row.id} in ${cloud.region} is ${row.state}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`;
  const down = hasEnded(placed) || row.state === 'stopped';
  return {
    summary: redact(word ? `${word.summary}; ${seen}` : seen),
    // Nothing restarts a machine while its registration is awaited, so waiting longer cannot help.
    certain: (down || word !== null) && typeof target.state.stop_asked_at_ms !== 'number',
    ...(word && { code: word.code }),
    attachments: lines ? [{ name: 'console.log', text: lines }] : [],
  };
}
