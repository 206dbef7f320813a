/**
 * @google-cloud/storage with its defaults: `file.save` of a Buffer and `file.download`, both with
 * their own validation.
 */

import { Storage } from '@google-cloud/storage';
import { job, measure } from '../peers/driver.mjs';
import { assertArrived, sourceMemory } from './memory.mjs';

const memory = job.action === 'upload' ? sourceMemory() : null;
let downloaded;

function file() {
  return new Storage({ apiEndpoint: job.endpoint, projectId: 'bench' }).bucket(job.bucket).file(job.sdkName);
}

await measure({
  upload: () => file().save(memory),
  'download to memory': async () => {
    [downloaded] = await file().download();
  },
});
if (downloaded) assertArrived(downloaded);
