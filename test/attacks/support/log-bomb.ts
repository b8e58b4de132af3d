/** Ships log lines that compress to almost nothing. */
import type { Machine } from '../../api/support/machine.ts';

const linesPerBatch = 4_000;
const lineText = 'a'.repeat(900);

/** Without the fields around each line. */
export const batchTextBytes = linesPerBatch * lineText.length;

/** Ships the given number of batches of about four megabytes each. */
export async function shipBomb(machine: Machine, batches: number): Promise<void> {
  for (let batch = 0; batch < batches; batch++) {
    const raw = Array.from({ length: linesPerBatch }, (_, i) => {
      const seq = batch * linesPerBatch + i + 1;
      return JSON.stringify({ seq, at: '2030-01-01T00:00:00Z', stream: 'stdout', line: lineText });
    }).join('\n');
    const { status, text: answer } = await machine.call(
      'agent-logs',
      {},
      { raw, headers: { 'content-type': 'application/x-ndjson' } },
    );
    if (status !== 200) throw new Error(`the server refused the log lines: ${status} ${answer}`);
  }
}
