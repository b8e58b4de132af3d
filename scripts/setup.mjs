/**
 * Prepares a clone: packages, the console, the agent bundle and, for tests, a browser, a container
 * engine, the AgentField SDK and third-party programs. Skips each step that is already done. Runs
 * before `npm start` and `npm test` on any Node that the machine has, so it imports no packages and
 * uses nothing newer than Node 20.
 */
import { agentfieldSdkStep } from './setup/agentfield-sdk.mjs';
import { buildSteps } from './setup/build.mjs';
import { chromiumStep } from './setup/chromium.mjs';
import { installSteps, nodeToRun } from './setup/install.mjs';
import { withSetupLock } from './setup/lock.mjs';
import { outsiderSteps } from './setup/outsiders.mjs';
import { podmanStep } from './setup/podman.mjs';
import { SetupError, say, seconds } from './setup/say.mjs';

const forTests = process.argv.includes('--for-tests');
/** Checks and tests need the development packages. `npm start` does without them. */
const withDevelopment = forTests || process.argv.includes('--with-development');
/** The static checks need the packages, but no builds. */
const packagesOnly = process.argv.includes('--packages-only');

/**
 * A step is `{ doing, done, needed(): false | true | string, run(): void }`; a string is the reason
 * for skipping the step. `needed` is called again under the lock, because another set-up may have
 * done the step meanwhile.
 */
function runStep(step) {
  const needed = step.needed();
  if (typeof needed === 'string') say(needed);
  if (needed !== true) return;
  withSetupLock(() => {
    if (step.needed() !== true) return;
    say(`${step.doing} …`);
    const startedAt = Date.now();
    step.run();
    say(`${step.done} in ${seconds(Date.now() - startedAt)}`);
  });
}

/** Prints a failure that the user can fix. Any other error is a defect, and is thrown. */
function attempt(run) {
  try {
    run();
    return true;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(error.message);
    return false;
  }
}

const install = () => {
  installSteps(withDevelopment).forEach(runStep);
  // Fails here if the packages have no Node for this platform and the machine's own is too old.
  nodeToRun();
};

if (!attempt(install)) process.exitCode = 1;
else if (!packagesOnly) {
  // Before tests, a failed build does not fail the set-up: the first test stage repeats the build
  // and fails, and the other stages still run.
  for (const step of buildSteps) if (!attempt(() => runStep(step)) && !forTests) process.exitCode = 1;
  if (forTests)
    for (const step of [chromiumStep, podmanStep, agentfieldSdkStep, ...outsiderSteps]) attempt(() => runStep(step));
}
