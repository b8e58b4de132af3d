/** `slipway certificate`: writes the signed release certificate of an allocation. */
import { writeFileSync } from 'node:fs';
import { pause } from '../../../base/clock.ts';
import { RequestRefused } from '../../../contract/client.ts';
import { certificateText } from '../../../contract/evidence/integrity/certificate.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import type { Session } from '../../connection/session.ts';
import { namedAllocation } from '../../names/named-allocation.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface Options {
  output?: string;
}

/** Rows are sealed within about a second of the release. */
const maxTries = 15;

async function fetchCertificate(session: Session, id: string) {
  for (let tries = 1; ; tries++) {
    try {
      return await session.call('allocation-certificate', { params: { id } });
    } catch (error) {
      const isEarly = error instanceof RequestRefused && error.problem.code === 'certificate_not_sealed';
      if (!isEarly || tries === maxTries) throw error;
      await pause(session.clock, (error.problem.retry_after_seconds ?? 1) * 1000, session.signal);
    }
  }
}

function keep(path: string, text: string): void {
  try {
    writeFileSync(path, text, { flag: 'wx' });
  } catch (error) {
    throw new CliFailure('failed', `The certificate could not be written to ${path}`, {
      why: error instanceof Error ? error.message : String(error),
      remedy: 'Name another file with --output.',
      cause: error,
    });
  }
}

const says = {
  proven: 'The release is proven.',
  unproven: 'Released by force: no proof exists. The certificate names what may be left.',
  no_machine: 'No machine had to be taken down.',
} as const;

export const makeCertificate: MakeCommand = (cli) =>
  new SlipwayCommand('certificate')
    .description('Write the signed certificate of a released allocation: what ran, when, and how its end was proven.')
    .argument('<allocation>', 'an allocation')
    .option('-o, --output <file>', 'where to; by default ALLOCATION.certificate.json here, - for standard output')
    .examples('slipway certificate alloc_…', 'slipway verify alloc_….certificate.json --public-key slipway.pem')
    .action(
      cli.run<Options>(async (session, { output }, [word = '']) => {
        const certificate = await fetchCertificate(session, await namedAllocation(session, word));
        const text = certificateText(certificate);
        const { out } = session.terminal;
        if (output === '-') {
          out.write(text);
          return undefined;
        }
        const path = output ?? `${certificate.allocation_id}.certificate.json`;
        keep(path, text);
        if (session.json) printJson(out, { path, release: certificate.release, kid: certificate.kid });
        else printLines(out, [`${out.paint('good', '✔')} ${path}`, `  ${says[certificate.release]}`]);
        return undefined;
      }),
    );
