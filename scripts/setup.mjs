/**
 * Makes a clone ready to run, and does nothing when it is: packages, the console, the agent's bundle and, for the tests,
 * a browser, a container engine and a client of another kind. It runs before `npm start` and `npm test`, on whatever Node
 * the machine has and before any package is installed; so it must not import a package and must not use what Node 20 lacks.
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

/**
 * A step is `{ doing, done, needed(): false | true | string, run(): void }`; a string is the reason why it is left out,
 * to be shown. A step is asked again once the lock is held, because another set-up may just have done it.
 */
function take(step) {
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

/** The failures that a person can mend are told in words; anything else is a defect of ours and ends as one. */
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
  installSteps.forEach(take);
  // Says so here where the packages bring no Node for this platform and the machine's own is too old.
  nodeToRun();
};

if (!attempt(install)) process.exitCode = 1;
else {
  // Before the tests a build may fail: their own first stage repeats it and fails, and the others still say something.
  for (const step of buildSteps) if (!attempt(() => take(step)) && !forTests) process.exitCode = 1;
  if (forTests)
    for (const step of [chromiumStep, podmanStep, agentfieldSdkStep, ...outsiderSteps]) attempt(() => take(step));
}
