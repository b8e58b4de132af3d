/** `slipway certificate`: writes the signed certificate of a released allocation to a file. */
import { pause } from '../../../base/clock.ts';
import { RequestRefused } from '../../../contract/client.ts';
import { certificateText } from '../../../contract/evidence/integrity/certificate.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { resolveAllocation } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';
import { writeNewFile } from '../../terminal/write-new-file.ts';

interface Options {
  output?: string;
}

/** Evidence is sealed about one second after the release, so the first try may be too early. */
const maxTries = 15;

async function fetchCertificate(session: Session, id: string) {
  for (let tries = 1; ; tries++) {
    try {
      return await session.call('allocation-certificate', { params: { id } });
    } catch (error) {
      const isNotSealedYet = error instanceof RequestRefused && error.problem.code === 'certificate_not_sealed';
      if (!isNotSealedYet || tries === maxTries) throw error;
      await pause(session.clock, (error.problem.retry_after_seconds ?? 1) * 1000, session.signal);
    }
  }
}

const proofSentences = {
  proven: 'The release is proven.',
  unproven: 'Released by force: no proof exists. The certificate lists the residue.',
  no_machine: 'No machine had to be torn down.',
} as const;

export const makeCertificate: MakeCommand = (cli) =>
  new SlipwayCommand('certificate')
    .description('Write the signed certificate of a released allocation: what ran, when, and how its end was proven.')
    .argument('<allocation>', 'an allocation')
    .option('-o, --output <file>', 'the file to write; default ALLOCATION.certificate.json; - for standard output')
    .examples('slipway certificate alloc_…', 'slipway verify alloc_….certificate.json --public-key slipway.pem')
    .action(
      cli.run<Options>(async (session, { output }, [word = '']) => {
        const certificate = await fetchCertificate(session, await resolveAllocation(session, word));
        const text = certificateText(certificate);
        const { out } = session.terminal;
        if (output === '-') {
          out.write(text);
          return undefined;
        }
        const path = output ?? `${certificate.allocation_id}.certificate.json`;
        writeNewFile(path, text, 'certificate');
        if (session.json) printJson(out, { path, release: certificate.release, kid: certificate.kid });
        else printLines(out, [`${out.paint('good', '✔')} ${path}`, `  ${proofSentences[certificate.release]}`]);
        return undefined;
      }),
    );
