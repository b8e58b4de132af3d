/** Ships log lines that compress a thousandfold. */
import type { Machine } from '../../api/support/machine.ts';

const linesAtOnce = 4_000;
const text = 'a'.repeat(900);

export const batchBytes = linesAtOnce * text.length;

/** Ships that many batches of about four megabytes each. */
export async function shipBomb(machine: Machine, batches: number): Promise<void> {
  for (let batch = 0; batch < batches; batch++) {
    const raw = Array.from({ length: linesAtOnce }, (_, i) => {
      const seq = batch * linesAtOnce + i + 1;
      return JSON.stringify({ seq, at: '2030-01-01T00:00:00Z', stream: 'stdout', line: text });
    }).join('\n');
    const { status, text: answer } = await machine.call(
      'agent-logs',
      {},
      { raw, headers: { 'content-type': 'application/x-ndjson' } },
    );
    if (status !== 200) throw new Error(`lines were not taken: ${status} ${answer}`);
  }
}
