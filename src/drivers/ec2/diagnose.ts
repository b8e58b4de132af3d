/** What only the provider knows: why a machine is in its state, its status checks, and what it wrote on its console. Works on a dead one too. */
import type { Diagnosis, DriverTarget } from '../driver.ts';
import type { Cloud } from './cloud.ts';
import { codeOf } from './cloud-error.ts';
import { type Ec2Host, hasEnded, ownAnywhere, type Placed } from './ec2-host.ts';
import type { Strike } from './secrets.ts';

const most_lines = 200;

/** What our script said last on the console, where it had to give up. */
export function lastWord(text: string): { code: string; summary: string } | null {
  const said = [...text.matchAll(/slipway: (boot failed|agent ended): ([a-z_]+): ([^\r\n]*)/g)].at(-1);
  const [, how, code, words] = said ?? [];
  return how && code ? { code, summary: `${words} (${how}: ${code})` } : null;
}

/** What is not shown must not keep from us what is. */
const orNothing = async <T>(asked: Promise<T>, nothing: T): Promise<T | { refused: string }> =>
  asked.catch((error: unknown) => (codeOf(error) ? { refused: codeOf(error) } : nothing));

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

export async function diagnose(host: Ec2Host, target: DriverTarget, strike: Strike): Promise<Diagnosis> {
  const { found, settling } = await ownAnywhere(host, target);
  const placed = found.find((each) => !hasEnded(each)) ?? found[0];
  if (!placed) {
    const summary = settling ? 'a machine was asked for and is not listed yet' : 'no machine of this instance exists';
    return { summary, certain: false, attachments: [] };
  }
  const { row, cloud } = placed;
  const { text, notes } = await shown(cloud, placed);
  const lines = strike(text).trimEnd().split('\n').slice(-most_lines).join('\n');
  const word = lastWord(text);
  const seen = `${row.id} in ${cloud.region} is ${row.state}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`;
  const down = hasEnded(placed) || row.state === 'stopped';
  return {
    summary: strike(word ? `${word.summary}; ${seen}` : seen),
    // Nobody starts a machine again while its registration is waited for, so waiting longer cannot help.
    certain: (down || word !== null) && typeof target.state.stop_asked_at_ms !== 'number',
    ...(word && { code: word.code }),
    attachments: lines ? [{ name: 'console.log', text: lines }] : [],
  };
}
